// Package notifier shows the system calls of a process tree before the kernel carries them
// out. A seccomp filter sends chosen calls to the holder of its listener
// (SECCOMP_RET_USER_NOTIF), and the kernel then continues as usual
// (SECCOMP_USER_NOTIF_FLAG_CONTINUE). The whole tree inherits the filter, statically linked
// programs included. Neither privileges nor namespaces are needed.
//
// One table (Calls) describes what each call means. Users of the package choose in a filter
// which calls are shown, and examine each of them in a function.
//
// A thread that shares the caller's memory can change a path between our look and the
// kernel's. So this is for observing; it cannot prevent anything.
package notifier
