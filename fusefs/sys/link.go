//go:build linux || darwin

package sys

import "golang.org/x/sys/unix"

// ReadLink returns the target of the symbolic link with this name.
func ReadLink(dir int, name string) ([]byte, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir, name, buf)
	if err != nil {
		return nil, err
	}
	return buf[:n], nil
}
