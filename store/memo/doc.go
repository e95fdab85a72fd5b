// Package memo runs a command and remembers its output together with everything that the
// command looked at. As long as all of that is unchanged, the same call is answered from
// memory. In observe → version → index → serve it is a second observer: of a process tree
// instead of a directory.
//
// # How a command is watched
//
// The overlay does not see what the kernel answers from its caches (look-ups, absent names,
// listings), nor anything outside of the project. So the command is started with a seccomp
// filter that sends us every system call which takes a path (SECCOMP_RET_USER_NOTIF), before
// the kernel carries it out; the kernel then continues as usual
// (SECCOMP_USER_NOTIF_FLAG_CONTINUE). The whole tree inherits the filter, which needs neither
// privileges nor namespaces. Writes still go through the mount and are versioned there.
//
// # What is remembered
//
// How a path was looked at decides what must stay the same: content that was read, names that
// were listed, names that were absent, the target of a symlink, modes and owners. A program that
// asks for attributes (stat, fstat) or lists a directory may show everything in the answer, times
// and inode numbers included, unless it is known not to (see kinds): a shell or git does not
// show access times, a C compiler no inode numbers, and cat, grep and the Go tools none of
// these; grep shows names in the order of the directory. What was not asked for does not count.
// So another clone of the same files, on another machine, can use the result (see
// Record.Stays). The state is recorded before the system call continues, and again at the end.
// If the command changed what it had looked at, or something else did, it is not replayed. The
// environment, limits, processors and groups are part of the call.
//
// One wrong replay costs more than all right ones save, so the rule is a list of what is
// allowed. Anything not known to reveal only what is compared prevents a replay: a system call
// (see quiet), a place, a file of the kernel, a device. The reason is kept. A cache (GOCACHE,
// __pycache__ …) does not count for the programs that own it. Ignored files that the command
// created must still be there, unchanged, so that everything is as after a run.
//
// Any program may ask for the time or for random numbers without being noticed; these are
// not covered.
package memo
