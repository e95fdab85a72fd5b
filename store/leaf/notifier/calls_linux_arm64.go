package notifier

import "golang.org/x/sys/unix"

// The numbers that differ between architectures.
const (
	AuditArch   = unix.AUDIT_ARCH_AARCH64
	SysFstatat  = unix.SYS_FSTATAT
	SysDup2     = 1 << 30 // does not exist
	ForeignFrom = 0
)

// olderCalls are the calls that only this architecture has.
var olderCalls = map[uint32]Call{
	unix.SYS_RENAMEAT: {Op: Move, Dir: 0, Path: 1, Flags: -1, Dir2: 2, Path2: 3},
}
