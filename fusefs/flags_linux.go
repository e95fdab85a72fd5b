//go:build !portable

package fusefs

import (
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// The requests that read and set the flags of a file (lsattr, chattr). Those with "X" take a struct
// fsxattr, the others a number. Before setting flags of either kind, the kernel reads them with
// FS_IOC_FSGETXATTR.
const (
	fsIocGetXFlags = 0x801c581f // FS_IOC_FSGETXATTR
	fsIocSetXFlags = 0x401c5820 // FS_IOC_FSSETXATTR
)

// Ioctl passes on requests that read or set the flags of a file. The kernel has checked that the
// caller may set them. All others are refused, because they would be made with our rights.
func (o *namespace) Ioctl(_ <-chan struct{}, in *fuse.IoctlIn, inbuf []byte, _ *fuse.IoctlOut, outbuf []byte) fuse.Status {
	n, st := o.node(in.NodeId)
	if !st.Ok() {
		return st
	}
	var value [28]byte
	size, set := len(value), true
	switch in.Cmd {
	case unix.FS_IOC_GETFLAGS, fsIocGetXFlags:
		set = false
	case unix.FS_IOC_SETFLAGS, fsIocSetXFlags:
	default:
		return fuse.Status(unix.ENOTTY)
	}
	if in.Cmd == unix.FS_IOC_GETFLAGS || in.Cmd == unix.FS_IOC_SETFLAGS {
		size = 4
	}
	if !n.isReg() && !n.isDir() || set && len(inbuf) < size || !set && len(outbuf) < size {
		return fuse.Status(unix.ENOTTY)
	}
	fd, err := o.openInode(n, unix.O_RDONLY)
	if err != nil {
		return status(err)
	}
	defer unix.Close(fd)
	if set {
		copy(value[:size], inbuf)
		n.begin()
		defer n.end()
	}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(in.Cmd), uintptr(unsafe.Pointer(&value)))
	if errno == 0 && !set {
		copy(outbuf, value[:size])
	}
	return fuse.Status(errno)
}
