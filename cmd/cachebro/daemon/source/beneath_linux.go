package source

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"cachebro/fusefs/sys"
	"cachebro/store"
	"cachebro/store/leaf/attrs"
	"cachebro/store/leaf/procfs"

	"golang.org/x/sys/unix"
)

// errEscapes is returned on other systems for a path that leaves the root.
var errEscapes = errors.New("path escapes from the project")

// OpenBeneath opens a path relative to dir and never leaves dir. O_NONBLOCK prevents it from
// hanging at a FIFO. Mounts inside dir are followed, except for the kernel's own file systems,
// which return EACCES. O_NOATIME is set if allowed, so that a scan does not change the access time
// of every file.
func OpenBeneath(dir *os.File, p string, follow bool) (*os.File, error) {
	p = cmp.Or(p, ".")
	how := &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_NOATIME,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	}
	if !follow {
		how.Resolve |= unix.RESOLVE_NO_SYMLINKS
	}
	for try := 0; ; try++ {
		fd, err := unix.Openat2(int(dir.Fd()), p, how)
		// EAGAIN means that something was renamed while ".." was being resolved.
		if (errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR)) && try < 10 {
			continue
		}
		if errors.Is(err, unix.EXDEV) && how.Resolve&unix.RESOLVE_NO_XDEV != 0 {
			how.Resolve &^= unix.RESOLVE_NO_XDEV
			at, aerr := unix.Openat2(int(dir.Fd()), p, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: how.Resolve})
			if aerr != nil {
				return nil, err
			}
			kernels := procfs.OnKernelFS(at)
			unix.Close(at)
			if kernels {
				return nil, unix.EACCES
			}
			continue
		}
		if errors.Is(err, unix.EPERM) && how.Flags&unix.O_NOATIME != 0 { // only the owner may read without changing the access time
			how.Flags &^= unix.O_NOATIME
			continue
		}
		if err != nil {
			return nil, err
		}
		return os.NewFile(uintptr(fd), p), nil
	}
}

func StatOf(f *os.File) (store.Stat, error) {
	var sx sys.Stat
	if err := sys.StatFD(int(f.Fd()), &sx); err != nil {
		return store.Stat{}, err
	}
	sx.Attrs = string(attrs.ReadFD(int(f.Fd())))
	return sx.Stat, nil
}

// LstatBeneath returns the stat of p and the target of a symbolic link.
func LstatBeneath(dir *os.File, p string) (store.Stat, string, error) {
	p = cmp.Or(p, ".")
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	var fd int
	var err error
	for try := 0; try < 10; try++ {
		fd, err = unix.Openat2(int(dir.Fd()), p, how)
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return store.Stat{}, "", err
	}
	defer unix.Close(fd)
	var sx sys.Stat
	if err := sys.StatFD(fd, &sx); err != nil {
		return store.Stat{}, "", err
	}
	st := sx.Stat
	if !st.IsLink() {
		st.Attrs = string(attrs.Read(fmt.Sprintf("/proc/self/fd/%d", fd)))
		return st, "", nil
	}
	b := make([]byte, 4097)
	n, err := unix.Readlinkat(fd, "", b)
	if err != nil {
		return st, "", err
	}
	return st, string(b[:n]), nil
}

// StatIn returns the stat of a name in an open directory, without its attributes. Reading those
// takes two more system calls, which a caller does not need if the ctime is unchanged.
func StatIn(dir *os.File, name string) (store.Stat, error) {
	var sx sys.Stat
	err := sys.StatAt(int(dir.Fd()), name, &sx)
	return sx.Stat, err
}

// nameOf returns a path of an open file that has a name.
func nameOf(f *os.File) (string, error) {
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err == nil && strings.HasSuffix(name, " (deleted)") {
		err = os.ErrNotExist
	}
	return name, err
}
