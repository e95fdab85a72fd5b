package spool

import (
	"errors"
	"os"
	"syscall"

	"cachebro/store/leaf/loop"
)

// keepSize is FALLOC_FL_KEEP_SIZE, with which fallocate does not change the file size.
const keepSize = 1

// allocate reserves blocks for the first n bytes of f without changing its size. It returns nil on
// file systems without fallocate, where a full disk is noticed when writing.
func allocate(f *os.File, n int64) error {
	err := loop.Retry(func() error { return syscall.Fallocate(int(f.Fd()), keepSize, 0, n) })
	if errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) {
		return nil
	}
	return err
}

func datasync(f *os.File) error {
	return loop.Retry(func() error { return syscall.Fdatasync(int(f.Fd())) })
}
