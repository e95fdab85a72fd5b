//go:build !portable

package sys

import "golang.org/x/sys/unix"

// LinkFD gives another name to the file that fd is open on. It returns ENOENT if the file has no
// name left.
func LinkFD(fd, dir int, name string) error {
	return unix.Linkat(unix.AT_FDCWD, path(fd), dir, name, unix.AT_SYMLINK_FOLLOW)
}

// Target returns the target of a symbolic link.
func Target(f Ref) ([]byte, error) { return ReadLink(f.FD, "") }

// Mknod makes a FIFO, a socket, a device or an empty file.
func Mknod(dir int, name string, mode uint32, dev int) error {
	return unix.Mknodat(dir, name, mode, dev)
}
