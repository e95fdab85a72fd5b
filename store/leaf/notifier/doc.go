// Package notifier shows the system calls of a process tree before the kernel carries
// them out. A seccomp filter hands chosen calls to whoever holds its listener
// (SECCOMP_RET_USER_NOTIF), and the kernel then goes on as if nothing had been
// (SECCOMP_USER_NOTIF_FLAG_CONTINUE). The filter is inherited by the whole tree and
// needs neither privileges nor namespaces; static programs are under it too.
//
// What a call means is in one table (Calls). Whoever uses the package says in a filter
// which calls are shown, and looks at each of them in a function.
//
// A thread that shares the caller's memory can change a path between our look and the
// kernel's: this is for watching, and keeps nobody from anything.
package notifier
