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
// where a symlink points, and of a file that a process asked the attributes of
// without reading it (make) or that a program known to show or compare times
// touched (ls, find, tar), its times too. The state is taken before the system
// call goes on, and again at the end: a command that changed what it had looked
// at itself, or that somebody disturbed, is not replayed.
//
// Paths of caches, which by their contract change no result (GOCACHE, ~/.cache,
// __pycache__ …), and of the kernel (/proc, /sys, /dev) do not count. Files that
// the command left behind among ignored files must be there, and the same, for a
// replay: after it everything is as after a run.
//
// Clocks, random numbers and the network are not inputs that anybody could
// check; a command that talks to somebody else is not replayed.
package memo
