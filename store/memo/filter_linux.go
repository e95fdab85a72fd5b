//go:build linux && (amd64 || arm64)

package memo

import (
	"slices"

	"cachebro/store/leaf/notifier"

	"golang.org/x/sys/unix"
)

// inputCalls maps each call that reads from a descriptor, or duplicates it, to the index of its
// descriptor argument.
var inputCalls = map[uint32]uint32{unix.SYS_READ: 0, unix.SYS_READV: 0, unix.SYS_PREAD64: 0, unix.SYS_PREADV: 0, unix.SYS_PREADV2: 0, unix.SYS_DUP: 0, unix.SYS_DUP3: 0, notifier.SysDup2: 0,
	unix.SYS_FSTAT: 0, unix.SYS_LSEEK: 0, unix.SYS_SPLICE: 0, unix.SYS_TEE: 0, unix.SYS_COPY_FILE_RANGE: 0, unix.SYS_RECVFROM: 0, unix.SYS_RECVMSG: 0, unix.SYS_SENDFILE: 1, unix.SYS_MMAP: 4,
	unix.SYS_FGETXATTR: 0, unix.SYS_FLISTXATTR: 0}

// filter returns the seccomp program that selects the reported system calls. It reports all calls
// except those known to reveal nothing new. It also reports reads from the descriptors in given.
func filter(given []int) []unix.SockFilter {
	// Calls of another architecture (32 bit) have other numbers. They are all reported, and the
	// first one prevents a replay.
	p := []unix.SockFilter{notifier.Stmt(notifier.Load, notifier.OffArch), notifier.Jump(notifier.Equal, notifier.AuditArch, 1, 0), notifier.Show, notifier.Stmt(notifier.Load, notifier.OffNR)}
	if notifier.ForeignFrom > 0 {
		p = append(p, notifier.Jump(notifier.Least, notifier.ForeignFrom, 0, 1), notifier.Show)
	}
	// The filter cannot see opens through an io_uring or the flags of clone3. Programs manage
	// without these calls if they fail.
	for _, nr := range []uint32{unix.SYS_IO_URING_SETUP, unix.SYS_CLONE3} {
		p = append(p, notifier.Jump(notifier.Equal, nr, 0, 1), notifier.Refuse(unix.ENOSYS))
	}
	for _, fd := range given { // report duplications too, because the duplicate could be read
		for nr, arg := range inputCalls {
			p = append(p, notifier.Jump(notifier.Equal, nr, 0, 4), notifier.Stmt(notifier.Load, notifier.OffArgs+8*arg), notifier.Jump(notifier.Equal, uint32(fd), 0, 1), notifier.Show, notifier.Stmt(notifier.Load, notifier.OffNR))
		}
		p = append(p, notifier.Jump(notifier.Equal, unix.SYS_FCNTL, 0, 7), notifier.Stmt(notifier.Load, notifier.OffArgs), notifier.Jump(notifier.Equal, uint32(fd), 0, 4), notifier.Stmt(notifier.Load, notifier.OffArgs+8),
			notifier.Jump(notifier.Equal, unix.F_DUPFD, 1, 0), notifier.Jump(notifier.Equal, unix.F_DUPFD_CLOEXEC, 0, 1), notifier.Show, notifier.Stmt(notifier.Load, notifier.OffNR))
	}
	for _, q := range quietWith {
		p = append(p, notifier.Jump(notifier.Equal, q.nr, 0, uint8(2*len(q.values)+3)), notifier.Stmt(notifier.Load, notifier.OffArgs+8*q.arg), notifier.Stmt(notifier.Mask, q.mask))
		for _, v := range q.values {
			p = append(p, notifier.Jump(notifier.Equal, v, 0, 1), notifier.Allow)
		}
		p = append(p, notifier.Show)
	}
	for _, nr := range slices.Concat(quiet, olderQuiet) {
		p = append(p, notifier.Jump(notifier.Equal, nr, 0, 1), notifier.Allow)
	}
	return append(p, notifier.Show)
}
