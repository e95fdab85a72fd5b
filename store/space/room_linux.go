package space

import (
	"os"

	"golang.org/x/sys/unix"
)

// preallocate allocates n bytes of real blocks for f.
func preallocate(f *os.File, n int64) error {
	return unix.Fallocate(int(f.Fd()), 0, 0, n)
}
