package memo

import "golang.org/x/sys/unix"

const (
	auditArch  = unix.AUDIT_ARCH_X86_64
	sysFstatat = unix.SYS_NEWFSTATAT
	sysDup2    = unix.SYS_DUP2
	// foreignFrom: numbers from here are of the x32 interface.
	foreignFrom = 0x40000000
)

// olderCalls are those that only this architecture has.
var olderCalls = map[uint32]call{
	unix.SYS_OPEN:      {op: opOpen, dir: -1, path: 0, flags: 1, dir2: -1, path2: -1},
	unix.SYS_CREAT:     plain(opOpen),
	unix.SYS_STAT:      plain(opStat),
	unix.SYS_LSTAT:     plain(opLstat),
	unix.SYS_ACCESS:    plain(opExist),
	unix.SYS_READLINK:  plain(opLink),
	unix.SYS_MKDIR:     plain(opMake),
	unix.SYS_MKNOD:     plain(opMake),
	unix.SYS_RMDIR:     plain(opRemove),
	unix.SYS_UNLINK:    plain(opRemove),
	unix.SYS_SYMLINK:   {op: opMake, dir: -1, path: 1, flags: -1, dir2: -1, path2: -1},
	unix.SYS_RENAME:    {op: opMove, dir: -1, path: 0, flags: -1, dir2: -1, path2: 1},
	unix.SYS_RENAMEAT:  {op: opMove, dir: 0, path: 1, flags: -1, dir2: 2, path2: 3},
	unix.SYS_LINK:      {op: opHard, dir: -1, path: 0, flags: -1, dir2: -1, path2: 1},
	unix.SYS_CHMOD:     plain(opChange),
	unix.SYS_CHOWN:     plain(opChange),
	unix.SYS_LCHOWN:    plain(opChange),
	unix.SYS_UTIME:     plain(opChange),
	unix.SYS_UTIMES:    plain(opChange),
	unix.SYS_FUTIMESAT: at(opChange, -1),
	unix.SYS_GETDENTS:  {op: opList, dir: 0, path: -1, flags: -1, dir2: -1, path2: -1, withoutPath: true},
	unix.SYS_USELIB:    plain(opStrange),
}

// olderQuiet: see quiet.
var olderQuiet = []uint32{unix.SYS_FORK, unix.SYS_VFORK, unix.SYS_PIPE, unix.SYS_DUP2, unix.SYS_POLL, unix.SYS_SELECT, unix.SYS_EPOLL_CREATE, unix.SYS_EPOLL_WAIT, unix.SYS_EVENTFD, unix.SYS_SIGNALFD,
	unix.SYS_INOTIFY_INIT, unix.SYS_ALARM, unix.SYS_PAUSE, unix.SYS_TIME, unix.SYS_GETPGRP, unix.SYS_ARCH_PRCTL}
