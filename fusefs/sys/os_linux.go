package sys

import (
	"bytes"
	"encoding/binary"

	"cachebro/store/leaf/loop"

	"golang.org/x/sys/unix"
)

// AccessACL is the extended attribute with the access control list of a file. Setting it may change
// the mode. DefaultACL is the attribute of a directory with the access control list for new files.
const (
	AccessACL  = "system.posix_acl_access"
	DefaultACL = "system.posix_acl_default"
)

// Unchanged and Now are special times for SetTimes.
var (
	Unchanged = Time{Nsec: unix.UTIME_OMIT}
	Now       = Time{Nsec: unix.UTIME_NOW}
)

// KeepSize is a flag for the mode of Allocate: the size of the file does not change.
const KeepSize = unix.FALLOC_FL_KEEP_SIZE

// Flags of Rename.
const (
	NoReplace = unix.RENAME_NOREPLACE // EEXIST if the new name exists
	Exchange  = unix.RENAME_EXCHANGE  // both names exist and change places
	Whiteout  = unix.RENAME_WHITEOUT  // the old name becomes overlayfs's mark of a removed file
)

// Rename moves a name from one directory to another, with the flags above or none.
func Rename(from int, old string, to int, name string, flags uint32) error {
	err := unix.Renameat2(from, old, to, name, uint(flags))
	if err == unix.ENOSYS && flags == 0 {
		err = unix.Renameat(from, old, to, name)
	}
	return err
}

// Allocate calls fallocate(2), and calls it again if a signal interrupts it.
func Allocate(fd int, mode uint32, off, n int64) error {
	return loop.Retry(func() error { return unix.Fallocate(fd, mode, off, n) })
}

// Dirents reads entries of a directory, beginning at the position of the descriptor. It returns the
// number of bytes, which is 0 at the end.
func Dirents(fd int, buf []byte) (int, error) {
	return loop.RetryValue(func() (int, error) { return unix.Getdents(fd, buf) })
}

// ParseDirent decodes the first entry that Dirents read, and returns its size. The fields of struct
// linux_dirent64 are inode number, cookie, length, type, and the name with a NUL.
func ParseDirent(b []byte) (Dirent, int) {
	size := int(binary.NativeEndian.Uint16(b[16:]))
	name := b[19:size]
	if i := bytes.IndexByte(name, 0); i >= 0 {
		name = name[:i]
	}
	return Dirent{
		Ino:  binary.NativeEndian.Uint64(b),
		Next: binary.NativeEndian.Uint64(b[8:]),
		Mode: uint32(b[18]) << 12,
		Name: string(name),
	}, size
}

// Sync makes a file durable. If content is true, attributes that are not needed to read the data
// are left out.
func Sync(fd int, content bool) error {
	if content {
		return unix.Fdatasync(fd)
	}
	return unix.Fsync(fd)
}

// OpenFlags are the flags of open(2) that exist only on this system and that concern the
// descriptor.
const OpenFlags = unix.O_NOATIME | unix.O_LARGEFILE

// Memory makes a file in memory that has no path.
func Memory(name string) (int, error) { return unix.MemfdCreate(name, unix.MFD_CLOEXEC) }

// NoUmask makes the calling thread create files with exactly the given modes. If a container's
// seccomp filter forbids unshare, NoUmask affects the whole process.
func NoUmask() {
	_ = unix.Unshare(unix.CLONE_FS)
	unix.Umask(0)
}

// Populate allocates the pages of b before they are written.
func Populate(b []byte) { _ = unix.Madvise(b, unix.MADV_POPULATE_WRITE) }
