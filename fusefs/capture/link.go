package capture

import "golang.org/x/sys/unix"

// linkFollow links the file that path, one of /proc/self/fd, leads to.
func linkFollow(path, to string) error {
	return unix.Linkat(unix.AT_FDCWD, path, unix.AT_FDCWD, to, unix.AT_SYMLINK_FOLLOW)
}
