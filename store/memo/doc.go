// Package memo runs a command and stores its output together with everything that the command read.
// While all of that is unchanged, the same call is answered from the stored output.
//
// # How a command is watched
//
// The overlay does not see requests that the kernel answers from its caches (look-ups, absent
// names, listings). Nor does it see accesses outside the project. So the command is started with a
// seccomp filter. The filter reports every system call that takes a path, or that may reveal
// something else (see quiet), to this package before the kernel carries it out
// (SECCOMP_RET_USER_NOTIF). The kernel then continues as usual (SECCOMP_USER_NOTIF_FLAG_CONTINUE).
// The whole process tree inherits the filter, which needs no privileges or namespaces. Writes still
// go through the mount and become versions.
//
// # What is recorded
//
// The way in which a path was accessed decides what must stay the same:
//   - content that was read
//   - names that were listed
//   - names that were absent
//   - the target of a symlink
//   - modes and owners
//
// A program that asks for attributes (stat, fstat) or lists a directory may show everything in the
// answer, including times and inode numbers, unless it is known not to (see kinds). For example, a
// C compiler does not show inode numbers, and cat, grep and the Go tools show neither times nor
// inode numbers.
//
// Facts that the command did not ask for do not matter. Another clone of the same files, on another
// machine, can therefore use the result (see Record.WhyLocal). The state is recorded before the
// system call continues, and again at the end. If the command or another process changed a path
// that the command had read, the output is not replayed. A call with another environment, or with
// other limits, processors or groups, is another call.
//
// One wrong replay costs more than all correct ones save, so only known operations are allowed. Any
// other system call (see quiet), place, kernel file or device prevents a replay, and the reason is
// recorded. The programs that own a cache (GOCACHE, __pycache__ …) may use it freely. Ignored files
// that the command created must still exist, unchanged, so that the tree is the same as after a
// run.
//
// Any program may ask for the time or for random numbers without being noticed. The output of
// such a program is replayed nevertheless.
package memo
