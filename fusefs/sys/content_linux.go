package sys

import "golang.org/x/sys/unix"

// KeepSize, in the mode of Allocate, leaves the size as it is.
const KeepSize = unix.FALLOC_FL_KEEP_SIZE

// Append writes where the file ends at that moment, and returns how many bytes.
func Append(fd int, b []byte) (int, error) {
	return unix.Pwritev2(fd, [][]byte{b}, 0, unix.RWF_APPEND)
}

// Allocate is fallocate(2), tried again when a signal came meanwhile, which
// tmpfs answers with EINTR: the runtime sends SIGURG to threads that work for
// long.
func Allocate(fd int, mode uint32, off, n int64) error {
	for {
		if err := unix.Fallocate(fd, mode, off, n); err != unix.EINTR {
			return err
		}
	}
}

// CopyRange copies up to n bytes from one file to another on the source, and returns
// how many.
func CopyRange(from int, offFrom int64, to int, offTo int64, n, flags int) (int, error) {
	return unix.CopyFileRange(from, &offFrom, to, &offTo, n, flags)
}
