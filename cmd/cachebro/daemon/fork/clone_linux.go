package fork

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// clone makes two open files share the disk blocks of from (a reflink, which btrfs, xfs and others
// support). It returns its parameter to, or nil if that is impossible. The unnamed parameters are
// needed only on other systems.
func clone(_ int, _ string, to, from *os.File) *os.File {
	if unix.IoctlFileClone(int(to.Fd()), int(from.Fd())) != nil {
		return nil
	}
	return to
}

// setMtime sets the time of the last change, in ns since the epoch.
func setMtime(f *os.File, ns int64) error {
	t := unix.NsecToTimespec(ns)
	return unix.UtimesNanoAt(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), []unix.Timespec{{Nsec: unix.UTIME_OMIT}, t}, 0)
}

// setLinkMtime sets the time of the last change of a symlink.
func setLinkMtime(dir int, name string, ns int64) error {
	t := unix.NsecToTimespec(ns)
	return unix.UtimesNanoAt(dir, name, []unix.Timespec{{Nsec: unix.UTIME_OMIT}, t}, unix.AT_SYMLINK_NOFOLLOW)
}

// copySparse copies a file of the given size, except for its holes, to an empty file.
func copySparse(to, from *os.File, size int64) error {
	for at := int64(0); at < size; {
		data, err := from.Seek(at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break // only a hole follows
		}
		if err != nil {
			return err
		}
		at, err = from.Seek(data, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		for _, f := range []*os.File{from, to} {
			if _, err := f.Seek(data, io.SeekStart); err != nil {
				return err
			}
		}
		if _, err := io.CopyN(to, from, at-data); err != nil && err != io.EOF {
			return err
		}
	}
	return to.Truncate(size)
}
