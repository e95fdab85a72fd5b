package fusefs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"cachebro/fusefs/sys"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// fsType is the file system type in /proc/mounts.
const (
	fsType    = "fuse.cachebro"
	fsSubtype = "cachebro"
)

// Errors of Mount and Detach.
var (
	// ErrNoFUSE means that the machine has no /dev/fuse.
	ErrNoFUSE = errors.New("no /dev/fuse here (load the fuse module, or give the container the device)")
	// ErrNoHelper means that the process is not root and there is no fusermount3 to mount for it.
	ErrNoHelper = errors.New("fusermount3 is not installed, and only root can mount without it (install the package fuse3)")
	// ErrBusy means that a process uses the mount, or that the mountpoint is already mounted.
	ErrBusy = errors.New("in use")
)

// mountDevice mounts opt.Mountpoint and returns the /dev/fuse descriptor. It calls mount(2) if that
// is permitted, otherwise it runs fusermount3. mounted returns at once on Linux, because the mount
// exists by then.
func mountDevice(opt *Options) (fd int, mounted func() error, err error) {
	fd, err = mountNow(opt)
	return fd, func() error { return nil }, err
}

func mountNow(opt *Options) (int, error) {
	var st unix.Stat_t
	if err := unix.Stat(opt.Mountpoint, &st); err != nil {
		return -1, &os.PathError{Op: "mount", Path: opt.Mountpoint, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return -1, &os.PathError{Op: "mount", Path: opt.Mountpoint, Err: unix.ENOTDIR}
	}
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	switch err {
	case nil:
	case unix.ENOENT, unix.ENODEV, unix.ENXIO:
		return -1, fmt.Errorf("mount %s: %w", opt.Mountpoint, ErrNoFUSE)
	default:
		return -1, fmt.Errorf("mount %s: open /dev/fuse: %w", opt.Mountpoint, err)
	}
	err = mountWith(opt, fd, st.Mode)
	if err == nil {
		return fd, nil
	}
	unix.Close(fd)
	switch err {
	case unix.EPERM:
		return fusermount(opt)
	case unix.EBUSY:
		err = ErrBusy
	case unix.ENODEV:
		err = ErrNoFUSE
	}
	return -1, fmt.Errorf("mount %s: %w", opt.Mountpoint, err)
}

// mountWith mounts the connection fd. mode is the mode of the mountpoint. Since Linux 5.14 the
// connection may already be mounted elsewhere.
func mountWith(opt *Options, fd int, mode uint32) error {
	flags := uintptr(unix.MS_NOSUID | unix.MS_NODEV)
	o := []string{
		fmt.Sprintf("fd=%d", fd), fmt.Sprintf("rootmode=%o", mode&unix.S_IFMT),
		fmt.Sprintf("user_id=%d", os.Geteuid()), fmt.Sprintf("group_id=%d", os.Getegid()),
		"default_permissions", fmt.Sprintf("max_read=%d", maxRequest),
	}
	if opt.AllowOther {
		o = append(o, "allow_other")
	}
	if opt.ReadOnly {
		flags |= unix.MS_RDONLY
	}
	return unix.Mount(opt.Source.Name(), opt.Mountpoint, fsType, flags, strings.Join(o, ","))
}

// MountAgain mounts the connection on its mountpoint again. It is for a mount that was unmounted
// there but still has a copy in another mount namespace. The process must have the right to mount
// without fusermount3.
func (s *Server) MountAgain() error {
	var st unix.Stat_t
	if err := unix.Stat(s.opt.Mountpoint, &st); err != nil {
		return &os.PathError{Op: "mount", Path: s.opt.Mountpoint, Err: err}
	}
	if err := mountWith(&s.opt, s.dev.fd, st.Mode); err != nil {
		return fmt.Errorf("mount %s again: %w", s.opt.Mountpoint, err)
	}
	return s.probe()
}

// fusermount runs the set-user-id helper fusermount3, which mounts the file system and sends back
// the descriptor.
func fusermount(opt *Options) (int, error) {
	bin, err := helper()
	if err != nil {
		return -1, fmt.Errorf("mount %s: %w", opt.Mountpoint, err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("mount %s: %w", opt.Mountpoint, err)
	}
	defer unix.Close(pair[0])
	remote := os.NewFile(uintptr(pair[1]), "fusermount")
	o := []string{
		"fsname=" + escape(opt.Source.Name()), "subtype=" + fsSubtype,
		"default_permissions", fmt.Sprintf("max_read=%d", maxRequest), "nosuid", "nodev",
	}
	if opt.AllowOther {
		o = append(o, "allow_other")
	}
	if opt.ReadOnly {
		o = append(o, "ro")
	}
	cmd := exec.Command(bin, "-o", strings.Join(o, ","), "--", opt.Mountpoint)
	cmd.Env = append(os.Environ(), "_FUSE_COMMFD=3")
	cmd.ExtraFiles = []*os.File{remote}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err = cmd.Run()
	remote.Close()
	if err != nil {
		return -1, fmt.Errorf("mount %s: %w", opt.Mountpoint, helperError(stderr.String(), err))
	}
	fd, err := receive(pair[0], unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("mount %s: descriptor from %s: %w", opt.Mountpoint, bin, err)
	}
	return fd, nil
}

func helper() (string, error) {
	for _, name := range []string{"fusermount3", "/bin/fusermount3", "/usr/bin/fusermount3", "fusermount"} {
		if p, err := exec.LookPath(name); err == nil {
			return p, nil
		}
	}
	return "", ErrNoHelper
}

func helperError(stderr string, err error) error {
	msg := strings.TrimSpace(stderr)
	switch {
	case msg == "":
		return err
	case strings.Contains(msg, "busy"):
		return fmt.Errorf("%w: %s", ErrBusy, msg)
	case strings.Contains(msg, "allow_other"):
		return fmt.Errorf("%s: %w", msg, unix.EPERM)
	}
	return errors.New(msg)
}

// unmount unmounts the mountpoint, either lazily or only if no process uses it.
func unmount(mountpoint string, lazy bool) error {
	flags := unix.UMOUNT_NOFOLLOW
	if lazy {
		flags |= unix.MNT_DETACH
	}
	err := unix.Unmount(mountpoint, flags)
	if err == unix.EPERM {
		var bin string
		bin, err = helper()
		if err == nil {
			args := []string{"-u", "--", mountpoint}
			if lazy {
				args = []string{"-u", "-z", "--", mountpoint}
			}
			var out []byte
			out, err = exec.Command(bin, args...).CombinedOutput()
			if err != nil {
				err = helperError(string(out), err)
			}
		}
	}
	switch err {
	case nil:
		return nil
	case unix.EBUSY:
		err = ErrBusy
	case unix.EINVAL:
		err = errors.New("not mounted")
	}
	return fmt.Errorf("unmount %s: %w", mountpoint, err)
}

// This file holds the differences between the protocols of Linux and Darwin. doc/macos.md lists the
// sources.

// capabilities are requested in addition to those of go-fuse.
const capabilities = fuse.CAP_ATOMIC_O_TRUNC | fuse.CAP_NO_OPENDIR_SUPPORT |
	fuse.CAP_HANDLE_KILLPRIV_V2 | fuse.CAP_ASYNC_DIO | fuse.CAP_HAS_RESEND

func capabilitiesOf(int) uint64 { return 0 }

// resending holds the INIT flags of a kernel that can resend unanswered requests.
const resending = fuse.CAP_INIT_EXT | fuse.CAP_HAS_RESEND

// readersInTurn reports whether only one thread at a time may wait for a request.
const readersInTurn = false

// fillMore fills in the attributes that only this kernel has.
func fillMore(*sys.Stat, *fuse.Attr) {}

func fillStatfs(s *unix.Statfs_t, out *fuse.StatfsOut) {
	*out = fuse.StatfsOut{
		Blocks: s.Blocks, Bfree: s.Bfree, Bavail: s.Bavail, Files: s.Files, Ffree: s.Ffree,
		Bsize: uint32(s.Bsize), NameLen: uint32(s.Namelen), Frsize: uint32(s.Frsize),
	}
}

// emptyChowns reports whether a chown(2) that changes no owner arrives as an empty SETATTR.
const emptyChowns = true

// setMoreOf are the bits of SETATTR that only this kernel has; setMore applies them.
const setMoreOf = 0

func setMore(sys.Ref, *fuse.SetAttrIn) error { return nil }

// atPosition reads an extended attribute. On Darwin, the request contains a position from which to
// read.
func atPosition(_ *fuse.InHeader, dest []byte, get func(dest []byte) (int, error)) (int, error) {
	return get(dest)
}

func setXattr(in *fuse.SetXAttrIn, at sys.Ref, attr string, data []byte) error {
	return sys.SetXattr(at, attr, data, int(in.Flags))
}
