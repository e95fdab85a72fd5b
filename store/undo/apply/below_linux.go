package apply

import (
	"fmt"
	"io/fs"
	"os"

	"cachebro/store/leaf/loop"

	"golang.org/x/sys/unix"
)

// openBelow opens a directory below root, even if this user may enter, but not list, directories
// between them. os.Root opens each of these for reading. No directory of the path may be a symlink.
func openBelow(root *os.Root, dir string) (*os.Root, fs.FileInfo, error) {
	top, err := root.Open(".")
	if err != nil {
		return nil, nil, err
	}
	defer top.Close()
	how := unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	}
	fd, err := loop.RetryValue(func() (int, error) { return unix.Openat2(int(top.Fd()), dir, &how) })
	if err != nil {
		return nil, nil, &fs.PathError{Op: "openat", Path: dir, Err: err}
	}
	defer unix.Close(fd)
	r, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return nil, nil, err
	}
	fi, err := r.Lstat(".")
	return r, fi, err
}
