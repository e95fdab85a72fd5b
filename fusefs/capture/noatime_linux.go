package capture

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// noAtime: what we read for ourselves leaves no trace in the access time.
const noAtime = unix.O_NOATIME

// ownFDs is where our own descriptors have names.
const ownFDs = "/proc/self/fd"

// quiet makes a descriptor that is about to be closed leave no trace in the
// access time either. Where we may not (the file is somebody else's), a read
// through it counts as one, like any other.
func quiet(fd int) {
	if fl, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err == nil {
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFL, fl|noAtime)
	}
}

func mtime(st *syscall.Stat_t) int64 { return st.Mtim.Nano() }
