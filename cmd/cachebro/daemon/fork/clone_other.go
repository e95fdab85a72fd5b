//go:build !linux

package fork

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// clone makes a file that shares the disk blocks of from. The new file replaces the one called name
// in the directory that the descriptor at refers to. clone returns the new file, or nil if the file
// system cannot do that. Only APFS can. The caller closes both files.
func clone(at int, name string, _, from *os.File) *os.File {
	tmp := name + ".cachebro"
	if unix.Fclonefileat(int(from.Fd()), at, tmp, unix.CLONE_NOFOLLOW) != nil {
		return nil
	}
	fd, err := -1, unix.Fchmodat(at, tmp, 0o600, unix.AT_SYMLINK_NOFOLLOW) // the clone has from's mode, which may forbid writing
	if err == nil {
		fd, err = unix.Openat(at, tmp, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	}
	if err == nil {
		err = unix.Renameat(at, tmp, at, name)
	}
	if err != nil {
		if fd >= 0 {
			unix.Close(fd)
		}
		_ = unix.Unlinkat(at, tmp, 0)
		return nil
	}
	return os.NewFile(uintptr(fd), name)
}

// setMtime sets the time of the last change, in ns since the epoch. The result is rounded to µs.
func setMtime(f *os.File, ns int64) error {
	t := unix.NsecToTimeval(ns)
	return unix.Futimes(int(f.Fd()), []unix.Timeval{t, t})
}

// setLinkMtime leaves the time of a symlink as it is.
func setLinkMtime(int, string, int64) error { return nil }

// copySparse copies a file. The holes become zeros.
func copySparse(to, from *os.File, _ int64) error {
	_, err := io.Copy(to, from)
	return err
}
