// Package memo runs a command and stores its output together with everything that the command
// read. As long as all of that is unchanged, the same call is answered from the stored
// output. In observe → version → index → serve it is a second observer, of a process tree
// instead of a directory.
//
// # How a command is watched
//
// The overlay sees neither requests that the kernel answers from its caches (look-ups, absent
// names, listings) nor accesses outside of the project. So the command is started with a
// seccomp filter that reports every system call that takes a path to this package
// (SECCOMP_RET_USER_NOTIF), before the kernel carries it out; the kernel then continues as
// usual (SECCOMP_USER_NOTIF_FLAG_CONTINUE). The whole tree inherits the filter, which needs
// neither privileges nor namespaces. Writes still go through the mount and are versioned
// there.
//
// # What is recorded
//
// The way in which a path was accessed decides what must stay the same: content that was
// read, names that were listed, names that were absent, the target of a symlink, modes and
// owners. A program that asks for attributes (stat, fstat) or lists a directory may show
// everything in the answer, including times and inode numbers, unless it is known not to (see
// kinds). A shell or git does not show access times, a C compiler does not show inode
// numbers, and cat, grep and the Go tools show neither; grep shows names in the order of the
// directory. Facts that the command did not ask for do not matter, so another clone of the
// same files, on another machine, can use the result (see Record.WhyLocal). The state is
// recorded before the system call continues, and again at the end. If the command or another
// process changed a path that the command had read, the output is not replayed. The
// environment, limits, processors and groups are part of the call.
//
// One wrong replay costs more than all correct ones save, so only known operations are
// allowed. Unless a system call (see quiet), place, kernel file or device is known to reveal
// only what is compared, its use prevents a replay, and the reason is recorded. A cache
// (GOCACHE, __pycache__ …) is ignored for the programs that own it. Ignored files that the
// command created must still exist, unchanged, so that the tree is the same as after a run.
//
// Any program may ask for the time or for random numbers without being noticed; these are
// not covered.
package memo
