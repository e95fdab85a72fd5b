//go:build portable || darwin

package sys

import (
	"strings"

	"cachebro/store/leaf/loop"

	"golang.org/x/sys/unix"
)

// This file is the implementation for kernels without O_PATH, openat2 and /proc. It uses POSIX
// calls on descriptors, and on names in directories. With the build tag "portable", it is also
// compiled on Linux, for its tests.

// Place is a flag of Open. With this flag, Open opens only a directory, or a regular file that we
// may read or write. The flag is not passed to any system call.
const Place = 1 << 28

// Points is false because not every file can be opened with Place. Symbolic links, FIFOs, and files
// that their owner may not open can be reached only by name. See open_linux.go.
const Points = false

// Open opens one name in a directory and follows no symbolic link. It returns ESTALE if the name is
// a symbolic link. If another file system is mounted on the name, Open enters it. If that is one of
// the kernel's own file systems, Open returns EACCES.
func Open(dir int, name string, flags int, mode uint32) (int, error) {
	if name == ".." || strings.Contains(name, "/") {
		return -1, unix.EXDEV // the name is not a single component
	}
	if name != "." && foreign(dir, name) {
		return -1, unix.EACCES
	}
	place := flags&Place != 0
	flags = flags&^Place | unix.O_CLOEXEC | unix.O_NOFOLLOW
	if place {
		return point(dir, name, flags)
	}
	fd, err := openat(dir, name, flags, mode)
	if err == unix.ELOOP {
		return -1, unix.ESTALE
	}
	return fd, err
}

// point opens only a directory or a regular file, because opening a FIFO or a device may have an
// effect.
func point(dir int, name string, flags int) (int, error) {
	if flags&unix.O_DIRECTORY != 0 {
		return openat(dir, name, search|flags, 0)
	}
	var s Stat
	if err := StatAt(dir, name, &s); err != nil {
		return -1, err
	}
	switch s.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return openat(dir, name, search|unix.O_DIRECTORY|flags, 0)
	case unix.S_IFREG:
	default:
		return -1, unix.ENOTSUP
	}
	flags |= unix.O_NONBLOCK | unix.O_NOCTTY // the name may lead to another file by now
	fd, err := openat(dir, name, unix.O_RDONLY|flags, 0)
	if err == unix.EACCES {
		fd, err = openat(dir, name, unix.O_WRONLY|flags, 0)
	}
	return fd, err
}

func openat(dir int, name string, flags int, mode uint32) (int, error) {
	return loop.RetryValue(func() (int, error) { return unix.Openat(dir, name, flags, mode) })
}

// OpenAgain opens the file of the open descriptor fd again, whatever names it has. It duplicates fd,
// so the file offset must not be used. It returns ESTALE if that is not possible with these flags.
func OpenAgain(fd, flags int) (int, error) {
	have, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return -1, err
	}
	have &= unix.O_ACCMODE
	if want := flags & unix.O_ACCMODE; flags&Place == 0 && have != unix.O_RDWR && have != want {
		return -1, unix.ESTALE
	}
	again, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil && flags&unix.O_TRUNC != 0 {
		err = unix.Ftruncate(again, 0)
		if err != nil {
			unix.Close(again)
			again = -1
		}
	}
	return again, err
}

func LinkFD(fd, dir int, name string) error { return unix.ENOENT }

// Target returns the target of a symbolic link.
func Target(f Ref) ([]byte, error) {
	if f.FD >= 0 {
		return nil, unix.EINVAL // on this system, no descriptor can be open on a symbolic link
	}
	return ReadLink(f.Dir, f.Name)
}

// Chown changes the owner and group; -1 means no change. Even if both are -1, it clears set-id
// bits.
func Chown(f Ref, uid, gid int) error {
	if f.FD >= 0 {
		return unix.Fchown(f.FD, uid, gid)
	}
	if foreign(f.Dir, f.Name) {
		return unix.EACCES
	}
	return unix.Fchownat(f.Dir, f.Name, uid, gid, unix.AT_SYMLINK_NOFOLLOW)
}

// Chmod sets the permission bits.
func Chmod(f Ref, mode uint32) error {
	if f.FD >= 0 {
		return unix.Fchmod(f.FD, mode)
	}
	if foreign(f.Dir, f.Name) {
		return unix.EACCES
	}
	return unix.Fchmodat(f.Dir, f.Name, mode, unix.AT_SYMLINK_NOFOLLOW)
}

// SetTimes sets the times of the last access and the last modification.
func SetTimes(f Ref, accessed, modified Time) error {
	if f.FD >= 0 {
		return setTimesOpen(f.FD, accessed, modified)
	}
	if foreign(f.Dir, f.Name) {
		return unix.EACCES
	}
	ts := []unix.Timespec{accessed.spec(), modified.spec()}
	return unix.UtimesNanoAt(f.Dir, f.Name, ts, unix.AT_SYMLINK_NOFOLLOW)
}

func Statfs(f Ref, s *unix.Statfs_t) error {
	if f.FD >= 0 {
		return unix.Fstatfs(f.FD, s)
	}
	return unix.Fstatfs(f.Dir, s)
}

// xattrs calls fn with a descriptor of the file, because no xattr call takes a directory and a
// name.
func xattrs(f Ref, fn func(fd int) error) error {
	if f.FD >= 0 {
		return fn(f.FD)
	}
	fd, err := openXattrs(f.Dir, f.Name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return fn(fd)
}

// GetXattr reads an extended attribute and returns its size in bytes. If dest is empty, it only
// returns the size.
func GetXattr(f Ref, attr string, dest []byte) (n int, err error) {
	err = xattrs(f, func(fd int) error { n, err = unix.Fgetxattr(fd, attr, dest); return err })
	return n, err
}

// GetXattrOpen is like GetXattr, but takes a descriptor.
func GetXattrOpen(fd int, attr string, dest []byte) (int, error) {
	return unix.Fgetxattr(fd, attr, dest)
}

// ListXattr lists the names of extended attributes, each followed by a NUL, and returns the size in
// bytes.
func ListXattr(f Ref, dest []byte) (n int, err error) {
	err = xattrs(f, func(fd int) error { n, err = unix.Flistxattr(fd, dest); return err })
	return n, err
}

// SetXattr sets an extended attribute, with the flags of setxattr(2).
func SetXattr(f Ref, attr string, value []byte, flags int) error {
	return xattrs(f, func(fd int) error { return unix.Fsetxattr(fd, attr, value, flags) })
}

// RemoveXattr removes an extended attribute.
func RemoveXattr(f Ref, attr string) error {
	return xattrs(f, func(fd int) error { return unix.Fremovexattr(fd, attr) })
}

// Append writes at the current end of the file, and returns the number of bytes written. No other
// goroutine may write through fd at the same time, because that write would be appended too.
func Append(fd int, b []byte) (int, error) {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags|unix.O_APPEND)
	}
	if err != nil {
		return 0, err
	}
	n, err := unix.Write(fd, b)
	if _, back := unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags); err == nil {
		err = back
	}
	return max(n, 0), err
}

// CopyRange fails, so that the kernel copies by reading and writing.
func CopyRange(from int, offFrom int64, to int, offTo int64, n, flags int) (int, error) {
	return 0, unix.EOPNOTSUPP
}

func Path(Ref) (string, error) { return "", unix.ENOTSUP }
