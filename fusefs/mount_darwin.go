package fusefs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
	"unsafe"

	"cachebro/fusefs/sys"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

const fsSubtype = "cachebro"

// Errors of Mount and Detach.
var (
	// ErrNoFUSE means that macFUSE is not installed.
	ErrNoFUSE = errMacFUSE
	// ErrNoHelper means that macFUSE is installed but the system does not allow its use.
	ErrNoHelper = errExtension
	// ErrBusy means that a process uses the mount, or that the mountpoint is already mounted.
	ErrBusy = errors.New("in use")
)

// MacFUSE returns the path of the mount program, or "" if there is none. It belongs to macFUSE 4 or
// later, or to the older osxfuse. Neither is in PATH.
func MacFUSE() string {
	for _, p := range []string{
		"/Library/Filesystems/macfuse.fs/Contents/Resources/mount_macfuse",
		"/Library/Filesystems/osxfuse.fs/Contents/Resources/mount_osxfuse",
	} {
		if _, err := os.Stat(p); err == nil {
			return p
		}
	}
	return ""
}

// mountDevice runs macFUSE's program, which mounts opt.Mountpoint, and returns the descriptor from
// which requests are read. mounted waits for the program, which ends after INIT and STATFS have
// been answered. So call mounted after the server has begun to answer.
func mountDevice(opt *Options) (fd int, mounted func() error, err error) {
	fail := func(err error) (int, func() error, error) {
		return -1, nil, fmt.Errorf("mount %s: %w", opt.Mountpoint, err)
	}
	bin := MacFUSE()
	if bin == "" {
		return fail(ErrNoFUSE)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return fail(err)
	}
	unix.CloseOnExec(pair[0])
	unix.CloseOnExec(pair[1])
	defer unix.Close(pair[0])
	remote := os.NewFile(uintptr(pair[1]), "mount_macfuse")
	cmd := exec.Command(bin, "-o", strings.Join(macOptions(opt), ","), opt.Mountpoint)
	cmd.Env = append(os.Environ(), macEnv(os.Args[0])...)
	cmd.ExtraFiles = []*os.File{remote}
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	err = cmd.Start()
	remote.Close()
	if err != nil {
		return fail(err)
	}
	fd, err = receive(pair[0], 0)
	if err != nil { // the program has ended and printed the reason
		return fail(macError(output.String(), errors.Join(cmd.Wait(), err)))
	}
	over := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		if err != nil {
			err = macError(output.String(), err)
		}
		over <- err
	}()
	return fd, func() error {
		select {
		case err := <-over:
			return err
		case <-time.After(mountTimeout):
			return os.ErrDeadlineExceeded
		}
	}, nil
}

// macEnv returns the environment for macFUSE's program. It tells the program where to send the
// device's descriptor, that a server answers requests while the program runs, and where the
// server's executable is.
func macEnv(self string) []string {
	return []string{
		"_FUSE_CALL_BY_LIB=1", "_FUSE_COMMFD=3", "_FUSE_COMMVERS=2", "_FUSE_DAEMON_PATH=" + self,
		"MOUNT_OSXFUSE_CALL_BY_LIB=1", "MOUNT_OSXFUSE_DAEMON_PATH=" + self,
	}
}

// unmount unmounts the mountpoint, either by force or only if no process uses it. diskutil asks
// system services that use the volume, such as Spotlight or the Finder, to stop.
func unmount(mountpoint string, force bool) error {
	flags := 0
	if force {
		flags = unix.MNT_FORCE
	}
	err := unix.Unmount(mountpoint, flags)
	if err == unix.EPERM || err == unix.EBUSY {
		args := []string{"unmount", mountpoint}
		if force {
			args = []string{"unmount", "force", mountpoint}
		}
		if exec.Command("/usr/sbin/diskutil", args...).Run() == nil {
			return nil
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

// MountAgain fails: without mount namespaces, no copy of a mount exists after an unmount.
func (s *Server) MountAgain() error { return unix.ENOTSUP }

// This file holds the differences between the protocols of Linux and Darwin. doc/macos.md lists the
// sources.

// capabilities are requested in addition to those of go-fuse: an OPEN that truncates, a rename that
// replaces nothing, and FALLOCATE.
const capabilities = fuse.CAP_ATOMIC_O_TRUNC | fuse.CAP_RENAME_EXCL | fuse.CAP_ALLOCATE

// pcCaseSensitive is _PC_CASE_SENSITIVE of <sys/unistd.h>. fpathconf(2) returns 0 for it if a
// volume ignores case.
const pcCaseSensitive = 11

// capabilitiesOf returns the capabilities that depend on the source. If the kernel knows that the
// volume ignores case, it forwards a rename that changes only case.
func capabilitiesOf(source int) uint64 {
	if v, err := unix.Fpathconf(source, pcCaseSensitive); err == nil && v == 0 {
		return fuse.CAP_CASE_INSENSITIVE
	}
	return 0
}

// resending is 0 because this kernel cannot send requests again.
const resending = 0

// readersInTurn means that only one thread at a time may wait for a request. If several threads
// wait, some of them miss the unmount. go-fuse does the same (fuse/fusefd_other.go).
const readersInTurn = true

// fillMore fills in the attributes that only this kernel has.
func fillMore(sx *sys.Stat, a *fuse.Attr) {
	a.Crtime_, a.Crtimensec_ = uint64(sx.Born.Sec), sx.Born.Nsec
	a.Flags_ = uint32(sx.Flags)
}

// fillStatfs fills in the reply. Blocks are counted in units of Frsize. Bsize is the transfer size.
func fillStatfs(s *unix.Statfs_t, out *fuse.StatfsOut) {
	*out = fuse.StatfsOut{
		Blocks: s.Blocks, Bfree: s.Bfree, Bavail: s.Bavail, Files: s.Files, Ffree: s.Ffree,
		Bsize: uint32(s.Iosize), NameLen: 255, Frsize: s.Bsize,
	}
}

// emptyChowns reports whether a chown(2) that changes no owner arrives as an empty SETATTR.
const emptyChowns = false

// setMoreOf are the bits of SETATTR that only this kernel has; setMore applies them. The kernel
// sends times of creation, backup and change only if CAP_XTIMES was requested.
const setMoreOf = fuse.FATTR_FLAGS

func setMore(f sys.Ref, in *fuse.SetAttrIn) error {
	if in.Valid&fuse.FATTR_FLAGS == 0 {
		return nil
	}
	return sys.SetFlags(f, in.Flags_)
}

// atPosition reads an extended attribute from the position in the request, because a resource fork
// is read in pieces. go-fuse passes only the header of the request; the rest of the request follows
// it in memory.
func atPosition(in *fuse.InHeader, dest []byte, get func(dest []byte) (int, error)) (int, error) {
	position := (*fuse.GetXAttrIn)(unsafe.Pointer(in)).Position
	if position == 0 {
		return get(dest)
	}
	return piece(position, dest, get)
}

func setXattr(in *fuse.SetXAttrIn, at sys.Ref, attr string, data []byte) error {
	if in.Position > 0 {
		var err error
		data, err = patched(in.Position, data, func(dest []byte) (int, error) { return sys.GetXattr(at, attr, dest) })
		if err != nil {
			return err
		}
	}
	return sys.SetXattr(at, attr, data, int(in.Flags))
}
