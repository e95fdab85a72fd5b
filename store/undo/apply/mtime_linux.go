package apply

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// setMtime sets the time of an open file without looking up its name.
func setMtime(_ *os.Root, f *os.File, mtime int64) error {
	times := [2]unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(mtime)}
	if _, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, f.Fd(), 0, uintptr(unsafe.Pointer(&times)), 0, 0, 0); errno != 0 {
		return &os.PathError{Op: "utimensat", Path: f.Name(), Err: errno}
	}
	return nil
}

// setLinkMtime sets the time of a symbolic link. There is no such function for directories, because
// the history does not record all their changes.
func (p *places) setLinkMtime(root *os.Root, name string, mtime int64) error {
	dir, err := p.file(root)
	if err != nil {
		return err
	}
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(mtime)}
	if err := unix.UtimesNanoAt(int(dir.Fd()), name, times, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return &os.PathError{Op: "utimensat", Path: name, Err: err}
	}
	return nil
}
