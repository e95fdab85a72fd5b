//go:build linux && (amd64 || arm64)

package memo

import "golang.org/x/sys/unix"

// op is what a system call does to the path that it names.
type op uint8

const (
	opStat    op = iota + 1 // asks for attributes, following a last symlink
	opLstat                 // or not
	opExist                 // asks whether it is there, and may be used
	opOpen                  // flags decide
	opOpen2                 // flags are in a struct
	opExec                  // reads it, and what it names as its interpreter
	opList                  // lists an open directory
	opLink                  // where does a symlink point?
	opChange                // content, attributes, times; following
	opMake                  // makes a name
	opRemove                // removes a name
	opMove                  // removes the first, makes the second
	opHard                  // makes the second, for the first
	opConnect               // talks to somebody
	opStrange               // what makes paths mean something else
)

// call says which arguments of a system call are what. -1: there is none; for
// a directory: the working directory.
type call struct {
	op          op
	dir, path   int8
	flags       int8
	dir2, path2 int8
	withoutPath bool // a NULL path means the descriptor dir itself
}

func at(o op, flags int8) call {
	return call{op: o, dir: 0, path: 1, flags: flags, dir2: -1, path2: -1}
}
func plain(o op) call { return call{op: o, dir: -1, path: 0, flags: -1, dir2: -1, path2: -1} }

// calls are the system calls that are watched on every architecture.
var calls = map[uint32]call{
	unix.SYS_OPENAT:            at(opOpen, 2),
	unix.SYS_OPENAT2:           at(opOpen2, 2),
	unix.SYS_STATX:             at(opStat, 2),
	unix.SYS_FACCESSAT:         at(opExist, -1),
	unix.SYS_FACCESSAT2:        at(opExist, 3),
	unix.SYS_READLINKAT:        at(opLink, -1),
	unix.SYS_GETDENTS64:        {op: opList, dir: 0, path: -1, flags: -1, dir2: -1, path2: -1, withoutPath: true},
	unix.SYS_EXECVE:            plain(opExec),
	unix.SYS_EXECVEAT:          at(opExec, -1),
	unix.SYS_CHDIR:             plain(opExist),
	unix.SYS_GETXATTR:          plain(opStat),
	unix.SYS_LGETXATTR:         plain(opLstat),
	unix.SYS_LISTXATTR:         plain(opStat),
	unix.SYS_LLISTXATTR:        plain(opLstat),
	unix.SYS_NAME_TO_HANDLE_AT: at(opStat, -1),
	unix.SYS_INOTIFY_ADD_WATCH: at(opExist, -1),

	unix.SYS_MKDIRAT:      at(opMake, -1),
	unix.SYS_MKNODAT:      at(opMake, -1),
	unix.SYS_SYMLINKAT:    {op: opMake, dir: 1, path: 2, flags: -1, dir2: -1, path2: -1},
	unix.SYS_UNLINKAT:     at(opRemove, -1),
	unix.SYS_RENAMEAT2:    {op: opMove, dir: 0, path: 1, flags: -1, dir2: 2, path2: 3},
	unix.SYS_LINKAT:       {op: opHard, dir: 0, path: 1, flags: -1, dir2: 2, path2: 3},
	unix.SYS_TRUNCATE:     plain(opChange),
	unix.SYS_FCHMODAT:     at(opChange, -1),
	unix.SYS_FCHMODAT2:    at(opChange, 3),
	unix.SYS_FCHOWNAT:     at(opChange, 4),
	unix.SYS_UTIMENSAT:    {op: opChange, dir: 0, path: 1, flags: 3, dir2: -1, path2: -1, withoutPath: true},
	unix.SYS_SETXATTR:     plain(opChange),
	unix.SYS_LSETXATTR:    plain(opChange),
	unix.SYS_REMOVEXATTR:  plain(opChange),
	unix.SYS_LREMOVEXATTR: plain(opChange),
	unix.SYS_FCHMOD:       {op: opChange, dir: 0, path: -1, flags: -1, dir2: -1, path2: -1, withoutPath: true},
	unix.SYS_FCHOWN:       {op: opChange, dir: 0, path: -1, flags: -1, dir2: -1, path2: -1, withoutPath: true},
	unix.SYS_FSETXATTR:    {op: opChange, dir: 0, path: -1, flags: -1, dir2: -1, path2: -1, withoutPath: true},
	unix.SYS_FREMOVEXATTR: {op: opChange, dir: 0, path: -1, flags: -1, dir2: -1, path2: -1, withoutPath: true},
	unix.SYS_FTRUNCATE:    {op: opChange, dir: 0, path: -1, flags: -1, dir2: -1, path2: -1, withoutPath: true},

	unix.SYS_CONNECT: {op: opConnect},

	unix.SYS_CHROOT:            plain(opStrange),
	unix.SYS_PIVOT_ROOT:        plain(opStrange),
	unix.SYS_MOUNT:             plain(opStrange),
	unix.SYS_UMOUNT2:           plain(opStrange),
	unix.SYS_MOVE_MOUNT:        plain(opStrange),
	unix.SYS_SETNS:             plain(opStrange),
	unix.SYS_OPEN_BY_HANDLE_AT: plain(opStrange),
}

func init() {
	fstatat := at(opStat, 3)
	calls[sysFstatat] = fstatat
	for nr, c := range olderCalls {
		calls[nr] = c
	}
}
