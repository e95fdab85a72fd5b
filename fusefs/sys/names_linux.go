//go:build !portable

package sys

import "golang.org/x/sys/unix"

// LinkFD gives what a descriptor is open on another name. ENOENT: it has none left,
// and was not made without one.
func LinkFD(fd, dir int, name string) error {
	return unix.Linkat(unix.AT_FDCWD, path(fd), dir, name, unix.AT_SYMLINK_FOLLOW)
}

// Target is where a symbolic link points.
func Target(f Ref) ([]byte, error) { return ReadLink(f.FD, "") }

// Mknod makes a FIFO, a socket, a device or an empty file.
func Mknod(dir int, name string, mode uint32, dev int) error {
	return unix.Mknodat(dir, name, mode, dev)
}
