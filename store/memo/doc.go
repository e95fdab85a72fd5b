// Package memo runs a command and remembers what came out, together with
// everything the command looked at, so that the same call can be answered at
// once while all of that is as it was. In observe → version → index → serve it
// is an observer of its own: of one process tree instead of one directory.
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
// For each path the way in which it was looked at decides what must stay the
// same: content that was read, names that were listed, names that were absent,
// where a symlink points, modes and owners. Everything else that stat(2) tells
// counts too, unless the program is known to show none of it (see kinds): of a
// shell or git the time of access, of cat, grep or the Go tools all times. The
// state is taken before the system call goes on, and again at the end: a command
// that changed what it had looked at itself, or that somebody disturbed, is not
// replayed. All variables, limits, processors and groups are in the call.
//
// A wrong replay costs more than all right ones save, so the rule is a positive
// list: a system call (see quiet), a place, a file of the kernel or a device that
// is not known to tell only what is compared keeps a command from being replayed,
// and the reason is kept. A cache (GOCACHE, __pycache__ …) does not count for the
// programs that own it. Files that the command left behind among ignored files
// must be there, and the same, for a replay: after it everything is as after a
// run.
//
// Clocks and random numbers are what every program may ask for without our
// knowing it.
package memo
