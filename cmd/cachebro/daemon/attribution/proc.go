package attribution

import (
	"errors"
	"os"

	"cachebro/store/leaf/procfs"

	"golang.org/x/sys/unix"
)

// Alive reports whether a process still is the one that it was.
func Alive(pid int, start uint64) bool {
	if pid <= 0 {
		return false
	}
	if st, err := procfs.ReadStat(pid); err != nil {
		// Not ours to look at, or no /proc: ask for its existence alone.
		return !errors.Is(err, os.ErrNotExist) && !errors.Is(unix.Kill(pid, 0), unix.ESRCH)
	} else if start != 0 && st.Start != start {
		return false
	}
	return true
}

// Began is when a process began that has this start time, in ns since the epoch; a
// procfs.Tick early at most, 0 where that is not known.
func Began(start uint64) int64 {
	boot := procfs.Zero()
	if boot == 0 || start == 0 {
		return 0
	}
	return boot + int64(start)*int64(procfs.Tick)
}
