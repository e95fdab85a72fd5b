package capture

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// noAtime prevents our own reads from changing the access time.
const noAtime = unix.O_NOATIME

const ownFDs = "/proc/self/fd"

// quiet prevents reads through a descriptor from changing the access time. It has no effect if
// another user owns the file.
func quiet(fd int) {
	if fl, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err == nil {
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFL, fl|noAtime)
	}
}

func mtime(st *syscall.Stat_t) int64 { return st.Mtim.Nano() }
