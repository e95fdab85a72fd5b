package memo

import (
	"os"
	"syscall"
)

func times(st *syscall.Stat_t) (mtime, ctime, atime int64) {
	return st.Mtimespec.Nano(), st.Ctimespec.Nano(), st.Atimespec.Nano()
}

func openQuietly(path string, flags int) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|flags, 0)
}
