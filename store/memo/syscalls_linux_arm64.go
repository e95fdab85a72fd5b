package memo

import "golang.org/x/sys/unix"

const (
	auditArch   = unix.AUDIT_ARCH_AARCH64
	sysFstatat  = unix.SYS_FSTATAT
	sysDup2     = 1 << 30 // there is none
	foreignFrom = 0
)

// olderCalls are those that only this architecture has.
var olderCalls = map[uint32]call{
	unix.SYS_RENAMEAT: {op: opMove, dir: 0, path: 1, flags: -1, dir2: 2, path2: 3},
}

// olderQuiet: see quiet.
var olderQuiet []uint32
