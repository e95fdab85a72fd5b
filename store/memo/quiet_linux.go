//go:build linux && (amd64 || arm64)

package memo

import "golang.org/x/sys/unix"

// quiet lists the system calls that reveal nothing new to a program. Some work on the program's own
// memory, threads, signals and descriptors. The program got its descriptors from reported calls,
// and a quiet call on an open file reveals only the content, which is compared anyway. Others ask
// for facts that are part of the call (see machineFacts), for the time, or for random numbers.
var quiet = []uint32{
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_CLOSE, unix.SYS_MMAP, unix.SYS_FUTEX, unix.SYS_MADVISE, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGACTION,
	unix.SYS_MPROTECT, unix.SYS_MUNMAP, unix.SYS_BRK, unix.SYS_MREMAP, unix.SYS_MSYNC, unix.SYS_MLOCK, unix.SYS_MLOCK2, unix.SYS_MUNLOCK, unix.SYS_MLOCKALL, unix.SYS_MUNLOCKALL,
	unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_PREAD64, unix.SYS_PWRITE64, unix.SYS_PREADV, unix.SYS_PWRITEV, unix.SYS_PREADV2, unix.SYS_PWRITEV2,
	unix.SYS_CLOSE_RANGE, unix.SYS_DUP, unix.SYS_DUP3, unix.SYS_PIPE2, unix.SYS_SPLICE, unix.SYS_TEE, unix.SYS_VMSPLICE, unix.SYS_SENDFILE, unix.SYS_COPY_FILE_RANGE,
	unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_SYNC, unix.SYS_SYNCFS, unix.SYS_SYNC_FILE_RANGE, unix.SYS_FALLOCATE, unix.SYS_FADVISE64, unix.SYS_READAHEAD,
	unix.SYS_FCHDIR, unix.SYS_GETCWD, unix.SYS_UMASK, unix.SYS_MEMFD_CREATE, unix.SYS_INOTIFY_INIT1, unix.SYS_INOTIFY_RM_WATCH,
	unix.SYS_RT_SIGRETURN, unix.SYS_RT_SIGPENDING, unix.SYS_RT_SIGTIMEDWAIT, unix.SYS_RT_SIGSUSPEND, unix.SYS_SIGALTSTACK, unix.SYS_SIGNALFD4, unix.SYS_PIDFD_SEND_SIGNAL,
	unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_WAIT4, unix.SYS_WAITID, unix.SYS_RESTART_SYSCALL, unix.SYS_SET_TID_ADDRESS, unix.SYS_SET_ROBUST_LIST, unix.SYS_GET_ROBUST_LIST, unix.SYS_RSEQ,
	unix.SYS_MEMBARRIER, unix.SYS_PRCTL, unix.SYS_SECCOMP, unix.SYS_PKEY_ALLOC, unix.SYS_PKEY_FREE, unix.SYS_PKEY_MPROTECT, unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY, unix.SYS_SCHED_SETAFFINITY,
	unix.SYS_SCHED_GET_PRIORITY_MAX, unix.SYS_SCHED_GET_PRIORITY_MIN, unix.SYS_GETCPU,
	unix.SYS_GETPID, unix.SYS_GETPPID, unix.SYS_GETTID, unix.SYS_GETPGID, unix.SYS_GETSID, unix.SYS_SETPGID, unix.SYS_SETSID, unix.SYS_GETUID, unix.SYS_GETEUID, unix.SYS_GETGID, unix.SYS_GETEGID,
	unix.SYS_GETRESUID, unix.SYS_GETRESGID, unix.SYS_GETGROUPS, unix.SYS_CAPGET, unix.SYS_SETUID, unix.SYS_SETGID, unix.SYS_SETREUID, unix.SYS_SETREGID, unix.SYS_SETRESUID, unix.SYS_SETRESGID, unix.SYS_GETRLIMIT, unix.SYS_SETRLIMIT, unix.SYS_GETRANDOM,
	unix.SYS_CLOCK_GETTIME, unix.SYS_CLOCK_GETRES, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_NANOSLEEP, unix.SYS_GETTIMEOFDAY, unix.SYS_TIMES, unix.SYS_GETRUSAGE, unix.SYS_GETITIMER, unix.SYS_SETITIMER,
	unix.SYS_TIMER_CREATE, unix.SYS_TIMER_SETTIME, unix.SYS_TIMER_GETTIME, unix.SYS_TIMER_GETOVERRUN, unix.SYS_TIMER_DELETE, unix.SYS_TIMERFD_CREATE, unix.SYS_TIMERFD_SETTIME, unix.SYS_TIMERFD_GETTIME,
	unix.SYS_PPOLL, unix.SYS_PSELECT6, unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_PWAIT2, unix.SYS_EVENTFD2,
	unix.SYS_SOCKETPAIR, unix.SYS_LISTEN, unix.SYS_ACCEPT, unix.SYS_ACCEPT4, unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME, unix.SYS_SETSOCKOPT, unix.SYS_GETSOCKOPT, unix.SYS_SHUTDOWN,
	unix.SYS_SENDMSG, unix.SYS_RECVMSG, unix.SYS_RECVFROM, unix.SYS_SENDMMSG, unix.SYS_RECVMMSG,
}

const fionclex, fioclex, fionbio = 0x5450, 0x5451, 0x5421

// quietWith lists system calls that reveal nothing new if argument arg, masked with mask, has one
// of the values.
var quietWith = []struct {
	nr, arg, mask uint32
	values        []uint32
}{
	{unix.SYS_IOCTL, 1, ^uint32(0), []uint32{unix.TCGETS, fioclex, fionclex, fionbio, unix.FICLONE}},
	// Only locks that wait are quiet. A call that does not wait reveals whether another process
	// holds the lock.
	{unix.SYS_FCNTL, 1, ^uint32(0), []uint32{unix.F_DUPFD, unix.F_DUPFD_CLOEXEC, unix.F_GETFD, unix.F_SETFD, unix.F_GETFL, unix.F_SETFL, unix.F_SETLKW, unix.F_OFD_SETLKW, unix.F_SETPIPE_SZ, unix.F_GETPIPE_SZ, unix.F_ADD_SEALS, unix.F_GET_SEALS}},
	// SEEK_DATA and SEEK_HOLE are not quiet, because the position of holes is not part of the
	// content.
	{unix.SYS_LSEEK, 2, ^uint32(0), []uint32{unix.SEEK_SET, unix.SEEK_CUR, unix.SEEK_END}},
	{unix.SYS_FLOCK, 1, unix.LOCK_NB, []uint32{0}},
	{unix.SYS_CLONE, 0, unix.CLONE_NEWNS | unix.CLONE_NEWUSER | unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWCGROUP, []uint32{0}},
	{unix.SYS_PRLIMIT64, 0, ^uint32(0), []uint32{0}},
	{unix.SYS_SOCKET, 0, ^uint32(0), []uint32{unix.AF_UNIX}},
	{unix.SYS_TGKILL, 2, ^uint32(0), []uint32{uint32(unix.SIGURG)}}, // sent between Go's threads
	{unix.SYS_SENDTO, 4, ^uint32(0), []uint32{0}},
}
