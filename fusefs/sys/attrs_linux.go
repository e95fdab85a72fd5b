package sys

import "golang.org/x/sys/unix"

// The descriptors here may be a Place, except where another is asked for.

// AccessACL is the extended attribute that holds the access control list; to set it
// may change the mode. DefaultACL is the one of a directory for what is made in it.
const (
	AccessACL  = "system.posix_acl_access"
	DefaultACL = "system.posix_acl_default"
)

// GetXattr reads an extended attribute and returns its size in bytes; with an empty
// dest it only tells the size.
func GetXattr(fd int, attr string, dest []byte) (int, error) {
	return unix.Getxattr(Path(fd), attr, dest)
}

// GetXattrOpen is GetXattr, faster, for a descriptor that is no Place.
func GetXattrOpen(fd int, attr string, dest []byte) (int, error) {
	return unix.Fgetxattr(fd, attr, dest)
}

// ListXattr lists the names, each ended by a NUL, and returns the size in bytes.
func ListXattr(fd int, dest []byte) (int, error) { return unix.Listxattr(Path(fd), dest) }

// SetXattr sets an extended attribute, with the flags of setxattr(2).
func SetXattr(fd int, attr string, value []byte, flags int) error {
	return unix.Setxattr(Path(fd), attr, value, flags)
}

// RemoveXattr removes an extended attribute.
func RemoveXattr(fd int, attr string) error { return unix.Removexattr(Path(fd), attr) }

// Chown gives the file to a user and a group; -1 leaves either as it is. With -1 for
// both it still takes set-id bits away.
func Chown(fd, uid, gid int) error {
	return unix.Fchownat(fd, "", uid, gid, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW)
}

// Chmod sets the permission bits.
func Chmod(fd int, mode uint32) error { return unix.Fchmodat(unix.AT_FDCWD, Path(fd), mode, 0) }

// Unchanged and Now are times to SetTimes.
var (
	Unchanged = Time{Nsec: unix.UTIME_OMIT}
	Now       = Time{Nsec: unix.UTIME_NOW}
)

// SetTimes sets the times of the last access and of the last change of content.
func SetTimes(fd int, accessed, modified Time) error {
	ts := []unix.Timespec{
		{Sec: accessed.Sec, Nsec: int64(accessed.Nsec)},
		{Sec: modified.Sec, Nsec: int64(modified.Nsec)},
	}
	return unix.UtimesNanoAt(fd, "", ts, unix.AT_EMPTY_PATH)
}
