package sys

import "golang.org/x/sys/unix"

// Flags of Rename.
const (
	NoReplace = unix.RENAME_NOREPLACE // EEXIST if the new name exists
	Exchange  = unix.RENAME_EXCHANGE  // both names exist and change places
)

// Rename moves a name from one directory to another, with the flags above or none.
func Rename(from int, old string, to int, name string, flags uint32) error {
	err := unix.Renameat2(from, old, to, name, uint(flags))
	if err == unix.ENOSYS && flags == 0 {
		err = unix.Renameat(from, old, to, name)
	}
	return err
}

// LinkFD gives what a descriptor is open on another name. ENOENT: it has none left,
// and was not made without one.
func LinkFD(fd, dir int, name string) error {
	return unix.Linkat(unix.AT_FDCWD, Path(fd), dir, name, unix.AT_SYMLINK_FOLLOW)
}

// ReadLink is where the symbolic link of that name points.
func ReadLink(dir int, name string) ([]byte, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir, name, buf)
	if err != nil {
		return nil, err
	}
	return buf[:n], nil
}

// ReadLinkFD is ReadLink for a symbolic link that is open as a Place.
func ReadLinkFD(fd int) ([]byte, error) { return ReadLink(fd, "") }
