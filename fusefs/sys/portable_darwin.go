package sys

import (
	"bytes"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"cachebro/store/leaf/procfs"

	"golang.org/x/sys/unix"
)

// NoAtime has no effect on Darwin.
const NoAtime = 0

// search are the flags that open a directory only to look up names in it.
const search = unix.O_SEARCH

// foreign reports whether one of the kernel's own file systems is mounted on a name.
func foreign(dir int, name string) bool {
	var here, there Stat
	return StatFD(dir, &here) == nil && StatAt(dir, name, &there) == nil && here.Dev != there.Dev && procfs.KernelDevice(int32(uint32(there.Dev)))
}

func (t Time) spec() unix.Timespec {
	switch t.Nsec {
	case bsdOmit:
		return unix.Timespec{Nsec: -2} // UTIME_OMIT of sys/stat.h
	case bsdNow:
		return unix.Timespec{Nsec: -1} // UTIME_NOW
	}
	return unix.Timespec{Sec: t.Sec, Nsec: int64(t.Nsec)}
}

// setTimesOpen sets times with fsetattrlist(2), because futimes(2) has only microseconds. A process
// that may write to the file but does not own it may only set both times to the present, which
// needs futimes.
func setTimesOpen(fd int, accessed, modified Time) error {
	if accessed == Now && modified == Now {
		return unix.Futimes(fd, nil)
	}
	attrs, values := bsdTimes(accessed, modified, time.Now())
	if attrs == 0 {
		return nil
	}
	list := unix.Attrlist{Bitmapcount: unix.ATTR_BIT_MAP_COUNT, Commonattr: attrs}
	_, _, errno := syscall.Syscall6(unix.SYS_FSETATTRLIST, uintptr(fd), uintptr(unsafe.Pointer(&list)),
		uintptr(unsafe.Pointer(&values[0])), uintptr(len(values)), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// openXattrs opens a name for its extended attributes. On Darwin a symbolic link can be opened and
// has attributes. For a FIFO openXattrs returns ENOTSUP.
func openXattrs(dir int, name string) (int, error) {
	var s Stat
	if err := StatAt(dir, name, &s); err != nil {
		return -1, err
	}
	if s.IsLink() {
		return openat(dir, name, unix.O_RDONLY|unix.O_SYMLINK|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	}
	return Open(dir, name, Place, 0)
}

// Mknod makes an empty file or a FIFO. mkfifoat(2) exists only since macOS 13, so a FIFO is made by
// path and then looked up in the directory. If the directory was moved in between, Mknod returns
// ESTALE.
func Mknod(dir int, name string, mode uint32, dev int) error {
	switch mode & unix.S_IFMT {
	case 0, unix.S_IFREG:
		fd, err := openat(dir, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode&0o7777)
		if err == nil {
			unix.Close(fd)
		}
		return err
	case unix.S_IFIFO:
	default:
		return unix.EOPNOTSUPP
	}
	path, err := nameOf(dir)
	if err != nil {
		return err
	}
	if err := unix.Mkfifo(path+"/"+name, mode&0o7777); err != nil {
		return err
	}
	var s Stat
	if err := StatAt(dir, name, &s); err != nil || s.Mode&unix.S_IFMT != unix.S_IFIFO {
		return unix.ESTALE
	}
	return nil
}

func nameOf(fd int) (string, error) {
	buf := make([]byte, unix.PathMax)
	_, _, errno := syscall.Syscall(unix.SYS_FCNTL, uintptr(fd), unix.F_GETPATH, uintptr(unsafe.Pointer(&buf[0])))
	runtime.KeepAlive(buf)
	if errno != 0 {
		return "", errno
	}
	path, _, _ := bytes.Cut(buf, []byte{0})
	return string(path), nil
}
