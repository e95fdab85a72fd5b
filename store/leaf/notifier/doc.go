// Package notifier reports the system calls of a process tree before the kernel carries them out. A
// seccomp filter has a descriptor, its listener. The process that holds the listener receives
// selected calls from it (SECCOMP_RET_USER_NOTIF). The kernel carries out each call when the holder
// has answered it (SECCOMP_USER_NOTIF_FLAG_CONTINUE). The whole tree inherits the filter, including
// statically linked programs. No privileges or namespaces are needed.
//
// The table Calls describes each call. Users of the package choose in a filter which calls are
// reported, and examine them in a function.
//
// A thread that shares the caller's memory can change a path after this package has read it and
// before the kernel reads it. Therefore the package can observe calls but not prevent them.
package notifier
