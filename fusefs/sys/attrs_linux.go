//go:build !portable

package sys

import "golang.org/x/sys/unix"

// In this file a Ref is always a descriptor; see Points.

// GetXattr reads an extended attribute and returns its size in bytes. If dest is empty, it only
// returns the size.
func GetXattr(f Ref, attr string, dest []byte) (int, error) {
	return unix.Getxattr(path(f.FD), attr, dest)
}

// GetXattrOpen is a faster GetXattr for a descriptor that was opened without Place.
func GetXattrOpen(fd int, attr string, dest []byte) (int, error) {
	return unix.Fgetxattr(fd, attr, dest)
}

// ListXattr lists the names of extended attributes, each followed by a NUL, and returns the size in
// bytes.
func ListXattr(f Ref, dest []byte) (int, error) { return unix.Listxattr(path(f.FD), dest) }

// SetXattr sets an extended attribute, with the flags of setxattr(2).
func SetXattr(f Ref, attr string, value []byte, flags int) error {
	return unix.Setxattr(path(f.FD), attr, value, flags)
}

// RemoveXattr removes an extended attribute.
func RemoveXattr(f Ref, attr string) error { return unix.Removexattr(path(f.FD), attr) }

// Chown changes the owner and group; -1 means no change. Even if both are -1, it clears set-id
// bits.
func Chown(f Ref, uid, gid int) error {
	return unix.Fchownat(f.FD, "", uid, gid, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW)
}

// Chmod sets the permission bits.
func Chmod(f Ref, mode uint32) error { return unix.Fchmodat(unix.AT_FDCWD, path(f.FD), mode, 0) }

// SetTimes sets the times of the last access and the last modification.
func SetTimes(f Ref, accessed, modified Time) error {
	ts := []unix.Timespec{
		{Sec: accessed.Sec, Nsec: int64(accessed.Nsec)},
		{Sec: modified.Sec, Nsec: int64(modified.Nsec)},
	}
	return unix.UtimesNanoAt(f.FD, "", ts, unix.AT_EMPTY_PATH)
}

func Statfs(f Ref, s *unix.Statfs_t) error { return unix.Fstatfs(f.FD, s) }
