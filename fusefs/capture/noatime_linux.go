package capture

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// noAtime keeps our own reads from changing the access time.
const noAtime = unix.O_NOATIME

// ownFDs is the directory in which our own descriptors have names.
const ownFDs = "/proc/self/fd"

// quiet prevents reads through a descriptor that is about to be closed from changing the access
// time. If that is not permitted, because another user owns the file, the reads change it.
func quiet(fd int) {
	if fl, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err == nil {
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFL, fl|noAtime)
	}
}

func mtime(st *syscall.Stat_t) int64 { return st.Mtim.Nano() }
