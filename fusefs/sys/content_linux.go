//go:build !portable

package sys

import "golang.org/x/sys/unix"

// Append writes where the file ends at that moment, and returns how many bytes.
func Append(fd int, b []byte) (int, error) {
	return unix.Pwritev2(fd, [][]byte{b}, 0, unix.RWF_APPEND)
}

// CopyRange copies up to n bytes from one file to another on the source, and returns
// how many.
func CopyRange(from int, offFrom int64, to int, offTo int64, n, flags int) (int, error) {
	return unix.CopyFileRange(from, &offFrom, to, &offTo, n, flags)
}
