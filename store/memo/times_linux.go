package memo

import (
	"os"
	"syscall"
)

func times(st *syscall.Stat_t) (mtime, ctime, atime int64) {
	return st.Mtim.Nano(), st.Ctim.Nano(), st.Atim.Nano()
}

// openQuietly opens a file for reading, without changing its access time if that is permitted.
func openQuietly(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|flags|syscall.O_NOATIME, 0)
	if err != nil {
		f, err = os.OpenFile(path, os.O_RDONLY|flags, 0)
	}
	return f, err
}
