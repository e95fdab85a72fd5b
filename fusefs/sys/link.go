//go:build linux || darwin

package sys

import "golang.org/x/sys/unix"

// ReadLink is where the symbolic link of that name points.
func ReadLink(dir int, name string) ([]byte, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir, name, buf)
	if err != nil {
		return nil, err
	}
	return buf[:n], nil
}
