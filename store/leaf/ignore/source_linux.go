package ignore

import (
	"os"

	"golang.org/x/sys/unix"
)

func openDir(root *os.Root) *os.File {
	f, err := root.Open(".")
	if err != nil {
		return nil
	}
	return f
}

// beneath opens a file of the project in one system call. If path is set, it opens the file only as
// a reference (O_PATH). os.Root needs two calls for each directory of the path. A nil file means
// that the file does not exist. known is false if the system call is not available. The caller then
// has to open the file in another way.
func (s *source) beneath(name string, path bool) (f *os.File, known bool) {
	if s.fd == nil {
		return nil, false
	}
	// O_NONBLOCK prevents a FIFO from blocking the open.
	how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	if path {
		how.Flags = unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW
	}
	fd, err := unix.Openat2(int(s.fd.Fd()), name, &how)
	switch err {
	case nil:
		return os.NewFile(uintptr(fd), name), true
	case unix.ENOENT, unix.ENOTDIR:
		return nil, true
	}
	return nil, false
}

const ownFDs = "/proc/self/fd"
