//go:build !portable

package sys

import "golang.org/x/sys/unix"

// Append writes at the current end of the file, and returns the number of bytes written.
func Append(fd int, b []byte) (int, error) {
	return unix.Pwritev2(fd, [][]byte{b}, 0, unix.RWF_APPEND)
}

// CopyRange copies up to n bytes between two files of the source, and returns the number of bytes
// copied.
func CopyRange(from int, offFrom int64, to int, offTo int64, n, flags int) (int, error) {
	return unix.CopyFileRange(from, &offFrom, to, &offTo, n, flags)
}
