// Package memo runs a command and remembers its output together with everything that
// the command looked at. While all of that is unchanged, the same call is answered from
// memory. In observe → version → index → serve it is a second observer: of one process
// tree instead of one directory.
//
// # How a command is watched
//
// The overlay does not see what the kernel answers from its caches (look-ups,
// absent names, listings), nor anything outside of the project. So the command
// is started with a seccomp filter that hands every system call which takes a
// path to us (SECCOMP_RET_USER_NOTIF) before the kernel carries it out; the
// kernel then goes on as if nothing had been (SECCOMP_USER_NOTIF_FLAG_CONTINUE).
// The filter is inherited by the whole tree and needs neither privileges nor
// namespaces. Writes still go through the mount and are versioned there.
//
// # What is remembered
//
// The way in which a path was looked at decides what must stay the same: content that
// was read, names that were listed, names that were absent, the target of a symlink,
// modes and owners. Who asks for attributes (stat, fstat) or lists a directory may show all
// that the answer has, times and inode numbers too, unless the program is known not to (see
// kinds): a shell or git does not show the access time, a compiler of C no inode numbers, and
// cat, grep and the Go tools none of these; grep shows names in the order of the directory.
// What was not asked for does not count: so another clone of the same files, on another
// machine, can have the result (see Record.Stays). The state is recorded before the
// system call goes on, and again at the end: a command that changed what it had looked
// at, or that somebody disturbed, is not replayed. The environment, limits, processors
// and groups are part of the call.
//
// One wrong replay costs more than all right ones save, so the rule is a list of what is
// allowed. A system call (see quiet), a place, a file of the kernel or a device that is
// not known to tell only what is compared keeps a command from being replayed, and the
// reason is kept. A cache (GOCACHE, __pycache__ …) does not count for the programs that
// own it. Files that the command left among ignored files must still be there, unchanged,
// so that everything is as after a run.
//
// Every program may ask for clocks and random numbers without our knowing it; these are
// not covered.
package memo
