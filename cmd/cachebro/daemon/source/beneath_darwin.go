package source

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"cachebro/store"

	"golang.org/x/sys/unix"
)

// errEscapes is returned for a path that leaves the root.
var errEscapes = errors.New("path escapes from the project")

// rootOf opens the directory through its descriptor, because a mount may cover its path.
func rootOf(dir *os.File) (*os.Root, error) {
	return os.OpenRoot(fmt.Sprintf("/dev/fd/%d", dir.Fd()))
}

// OpenBeneath opens a path relative to dir and never leaves dir. macOS has no openat2, so os.Root
// walks the path component by component.
func OpenBeneath(dir *os.File, p string, follow bool) (*os.File, error) {
	r, err := rootOf(dir)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	p = cmp.Or(p, ".")
	if !follow {
		fi, err := r.Lstat(p)
		if err != nil {
			return nil, err
		}
		if fi.Mode()&os.ModeSymlink != 0 {
			return nil, syscall.ELOOP
		}
	}
	f, err := r.OpenFile(p, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil && err.Error() == "path escapes from parent" {
		err = errEscapes
	}
	return f, err
}

func StatOf(f *os.File) (store.Stat, error) {
	fi, err := f.Stat()
	if err != nil {
		return store.Stat{}, err
	}
	return fromInfo(fi), nil
}

func LstatBeneath(dir *os.File, p string) (store.Stat, string, error) {
	r, err := rootOf(dir)
	if err != nil {
		return store.Stat{}, "", err
	}
	defer r.Close()
	p = cmp.Or(p, ".")
	fi, err := r.Lstat(p)
	if err != nil {
		return store.Stat{}, "", err
	}
	if fi.Mode()&os.ModeSymlink != 0 {
		target, err := r.Readlink(p)
		return fromInfo(fi), target, err
	}
	return fromInfo(fi), "", nil
}

// StatIn returns the stat of a name in an open directory.
func StatIn(dir *os.File, name string) (store.Stat, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return store.Stat{}, err
	}
	return store.Stat{
		Dev: uint64(st.Dev), Ino: st.Ino, Mode: uint32(st.Mode), Nlink: uint32(st.Nlink), UID: st.Uid, GID: st.Gid,
		Size: st.Size, Mtime: st.Mtim.Nano(), Ctime: st.Ctim.Nano(),
	}, nil
}

func fromInfo(fi os.FileInfo) store.Stat {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return store.Stat{Size: fi.Size(), Mtime: fi.ModTime().UnixNano()}
	}
	return store.Stat{
		Dev: uint64(st.Dev), Ino: st.Ino, Mode: uint32(st.Mode), Nlink: uint32(st.Nlink), UID: st.Uid, GID: st.Gid,
		Size: st.Size, Mtime: fi.ModTime().UnixNano(), Ctime: ctime(st),
	}
}

// nameOf returns a path of an open file.
func nameOf(f *os.File) (string, error) {
	var buf [1024]byte // MAXPATHLEN
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), syscall.F_GETPATH, uintptr(unsafe.Pointer(&buf[0]))); errno != 0 {
		return "", errno
	}
	name, _, _ := bytes.Cut(buf[:], []byte{0})
	return string(name), nil
}
