package capture

import "golang.org/x/sys/unix"

// linkFollow makes a hard link to the file that path, in /proc/self/fd, refers to.
func linkFollow(path, to string) error {
	return unix.Linkat(unix.AT_FDCWD, path, unix.AT_FDCWD, to, unix.AT_SYMLINK_FOLLOW)
}
