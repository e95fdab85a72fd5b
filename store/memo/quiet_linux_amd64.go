package memo

import "golang.org/x/sys/unix"

// olderQuiet lists quiet calls that only this architecture has; see quiet.
var olderQuiet = []uint32{unix.SYS_FORK, unix.SYS_VFORK, unix.SYS_PIPE, unix.SYS_DUP2, unix.SYS_POLL, unix.SYS_SELECT, unix.SYS_EPOLL_CREATE, unix.SYS_EPOLL_WAIT, unix.SYS_EVENTFD, unix.SYS_SIGNALFD,
	unix.SYS_INOTIFY_INIT, unix.SYS_ALARM, unix.SYS_PAUSE, unix.SYS_TIME, unix.SYS_GETPGRP, unix.SYS_ARCH_PRCTL}
