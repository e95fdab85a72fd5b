package notifier

import "golang.org/x/sys/unix"

// The numbers that differ between architectures.
const (
	AuditArch  = unix.AUDIT_ARCH_X86_64
	SysFstatat = unix.SYS_NEWFSTATAT
	SysDup2    = unix.SYS_DUP2
	// ForeignFrom is the first number of the x32 interface.
	ForeignFrom = 0x40000000
)

// olderCalls are the calls that only this architecture has.
var olderCalls = map[uint32]Call{
	unix.SYS_OPEN:      {Op: Open, Dir: -1, Path: 0, Flags: 1, Dir2: -1, Path2: -1},
	unix.SYS_CREAT:     plain(Open),
	unix.SYS_STAT:      plain(Stat),
	unix.SYS_LSTAT:     plain(Lstat),
	unix.SYS_ACCESS:    plain(Exist),
	unix.SYS_READLINK:  plain(Readlink),
	unix.SYS_MKDIR:     plain(Make),
	unix.SYS_MKNOD:     plain(Make),
	unix.SYS_RMDIR:     plain(Remove),
	unix.SYS_UNLINK:    plain(Remove),
	unix.SYS_SYMLINK:   {Op: Make, Dir: -1, Path: 1, Flags: -1, Dir2: -1, Path2: -1},
	unix.SYS_RENAME:    {Op: Move, Dir: -1, Path: 0, Flags: -1, Dir2: -1, Path2: 1},
	unix.SYS_RENAMEAT:  {Op: Move, Dir: 0, Path: 1, Flags: -1, Dir2: 2, Path2: 3},
	unix.SYS_LINK:      {Op: Hard, Dir: -1, Path: 0, Flags: -1, Dir2: -1, Path2: 1},
	unix.SYS_CHMOD:     plain(Change),
	unix.SYS_CHOWN:     plain(Change),
	unix.SYS_LCHOWN:    plain(Change),
	unix.SYS_UTIME:     plain(Change),
	unix.SYS_UTIMES:    plain(Change),
	unix.SYS_FUTIMESAT: at(Change, -1),
	unix.SYS_GETDENTS:  {Op: List, Dir: 0, Path: -1, Flags: -1, Dir2: -1, Path2: -1, WithoutPath: true},
	unix.SYS_USELIB:    plain(Strange),
}
