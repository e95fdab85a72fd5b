// Package notifier reports the system calls of a process tree before the kernel carries them out. A
// seccomp filter sends selected calls to the holder of its listener (SECCOMP_RET_USER_NOTIF). When
// the holder has answered, the kernel continues as usual (SECCOMP_USER_NOTIF_FLAG_CONTINUE). The
// whole tree inherits the filter, including statically linked programs. No privileges or namespaces
// are needed.
//
// The table Calls describes each call. Users of the package choose in a filter which calls are
// reported, and examine them in a function.
//
// A thread that shares the caller's memory can change a path after this package has read it and
// before the kernel reads it. Therefore the package can observe calls but not prevent them.
package notifier
