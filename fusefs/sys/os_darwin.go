package sys

import (
	"cachebro/store/leaf/loop"

	"golang.org/x/sys/unix"
)

// Unchanged and Now are special times for SetTimes.
var (
	Unchanged = Time{Nsec: bsdOmit}
	Now       = Time{Nsec: bsdNow}
)

// KeepSize is a bit of the mode that Allocate takes. If it is set, the size of the file does not
// change.
const KeepSize = 1

// Flags of Rename.
const (
	NoReplace = unix.RENAME_EXCL // EEXIST if the new name exists
	Exchange  = unix.RENAME_SWAP // both names exist and change places
	Whiteout  = 0                // exists only on Linux
)

// Rename moves a name from one directory to another, with the flags above or none.
func Rename(from int, old string, to int, name string, flags uint32) error {
	if flags == 0 {
		return unix.Renameat(from, old, to, name)
	}
	return unix.RenameatxNp(from, old, to, name, flags)
}

// Allocate reserves n bytes at off. Bits other than KeepSize would remove or zero content, so
// they fail with EOPNOTSUPP.
func Allocate(fd int, mode uint32, off, n int64) error {
	if mode&^KeepSize != 0 {
		return unix.EOPNOTSUPP
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if more := missingBytes(off, n, uint64(st.Blocks)); more > 0 {
		room := unix.Fstore_t{Flags: unix.F_ALLOCATEALL, Posmode: unix.F_PEOFPOSMODE, Length: more}
		if err := unix.FcntlFstore(uintptr(fd), unix.F_PREALLOCATE, &room); err != nil {
			return err
		}
	}
	if mode&KeepSize == 0 && st.Size < off+n {
		return unix.Ftruncate(fd, off+n)
	}
	return nil
}

// Dirents reads entries of a directory, beginning at the position of the descriptor. It returns the
// number of bytes, which is 0 at the end.
func Dirents(fd int, buf []byte) (int, error) {
	return loop.RetryValue(func() (int, error) { return unix.Getdirentries(fd, buf, new(uintptr)) })
}

// ParseDirent decodes the first entry that Dirents read, and returns its size.
func ParseDirent(b []byte) (Dirent, int) { return parseBSD(b) }

// Sync makes a file durable. After fsync(2) alone, data may still be in the disk's cache, so Sync
// prefers F_FULLFSYNC. Not every file system supports that.
func Sync(fd int, content bool) error {
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_FULLFSYNC, 0); err == nil {
		return nil
	}
	return unix.Fsync(fd)
}

// AccessACL and DefaultACL are empty, because access control lists are not extended attributes on
// Darwin.
const (
	AccessACL  = ""
	DefaultACL = ""
)

// OpenFlags are the flags of open(2) that exist only on this system and that concern the
// descriptor.
const OpenFlags = 0

// Memory fails with ENOTSUP, because Darwin has no files in memory.
func Memory(string) (int, error) { return -1, unix.ENOTSUP }

// NoUmask makes new files get exactly the given modes. It affects the whole process, because
// Darwin's threads have no umask of their own.
func NoUmask() { unix.Umask(0) }

func Populate([]byte) {}

// SetFlags sets the flags of chflags(2).
func SetFlags(f Ref, flags uint32) error {
	return xattrs(f, func(fd int) error { return unix.Fchflags(fd, int(flags)) })
}
