package attribution

import (
	"errors"
	"os"

	"cachebro/store/leaf/procfs"

	"golang.org/x/sys/unix"
)

// Alive reports whether the process with this pid and start time (0: any) is still running.
func Alive(pid int, start uint64) bool {
	if pid <= 0 {
		return false
	}
	if st, err := procfs.ReadStat(pid); err != nil {
		// A process that is not found has ended. After another error, such as a denied
		// permission, only check that the process exists.
		return !errors.Is(err, os.ErrNotExist) && !errors.Is(unix.Kill(pid, 0), unix.ESRCH)
	} else if start != 0 && st.Start != start {
		return false
	}
	return true
}

// Began returns when a process with this start time began, in ns since the epoch. The result is at
// most one procfs.Tick early, and 0 if the time is not known.
func Began(start uint64) int64 {
	boot := procfs.Zero()
	if boot == 0 || start == 0 {
		return 0
	}
	return boot + int64(start)*int64(procfs.Tick)
}
