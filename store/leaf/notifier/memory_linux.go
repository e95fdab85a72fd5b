//go:build linux && (amd64 || arm64)

package notifier

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrHidden means that a path in a call's arguments was not readable in the caller's memory.
var ErrHidden = errors.New("named a file by memory that could not be read")

// Peek reads memory of a process that waits for an answer.
func Peek(pid uint32, addr uint64, buf []byte) bool {
	local := []unix.Iovec{{Base: &buf[0]}}
	local[0].SetLen(len(buf))
	n, err := unix.ProcessVMReadv(int(pid), local, []unix.RemoteIovec{{Base: uintptr(addr), Len: len(buf)}}, 0)
	return err == nil && n == len(buf)
}

// PeekString reads a string up to its NUL, in pieces that do not cross a page.
func PeekString(pid uint32, addr uint64) (string, bool) { return readString(Peek, pid, addr) }

func readString(read func(uint32, uint64, []byte) bool, pid uint32, addr uint64) (string, bool) {
	var out []byte
	for len(out) <= unix.PathMax {
		buf := make([]byte, min(256, 4096-addr%4096))
		if !read(pid, addr, buf) {
			return "", false
		}
		if i := bytes.IndexByte(buf, 0); i >= 0 {
			return string(append(out, buf[:i]...)), true
		}
		out = append(out, buf...)
		addr += uint64(len(buf))
	}
	return "", false
}

func (n *Notice) read() func(uint32, uint64, []byte) bool {
	if n.Read == nil {
		return Peek
	}
	return n.Read
}

// Name returns the name that an argument points to, exactly as the caller passed it.
func (n *Notice) Name(arg int8) (string, error) {
	if n.name != "" && n.named == arg {
		return n.name, nil
	}
	name, ok := readString(n.read(), n.PID, n.Args[arg])
	if !ok {
		return "", ErrHidden
	}
	n.named, n.name = arg, name
	return name, nil
}

// Path returns the absolute path that a directory argument and a path argument denote, without
// resolving symlinks. It returns "" if the call concerns no file with a path.
func (n *Notice) Path(dirArg, pathArg int8, withoutPath bool) (string, error) {
	name := ""
	if pathArg >= 0 && n.Args[pathArg] != 0 {
		var err error
		name, err = n.Name(pathArg)
		if err != nil {
			return "", err
		}
	} else if !withoutPath {
		return "", nil // EFAULT
	}
	if strings.HasPrefix(name, "/") {
		return name, nil
	}
	at := ""
	var err error
	if dirArg >= 0 && int32(n.Args[dirArg]) != unix.AT_FDCWD {
		if name == "" && !withoutPath {
			return "", nil // AT_EMPTY_PATH: the attributes of an open descriptor
		}
		at, err = pathOfLink(n.Descriptor(dirArg))
	} else if name != "" { // the kernel refuses an empty name
		if n.cwd == "" {
			n.cwd, err = pathOfLink(fmt.Sprintf("/proc/%d/cwd", n.PID))
		}
		at = n.cwd
	}
	if at == "" || name == "" {
		return at, err
	}
	if len(at)+len(name) >= unix.PathMax-1 {
		return "", fmt.Errorf("%s…: %w", at, unix.ENAMETOOLONG)
	}
	return at + "/" + name, nil
}

// Descriptor returns a path in /proc that leads to the file or directory of a descriptor argument.
func (n *Notice) Descriptor(arg int8) string {
	if fd := int32(n.Args[arg]); fd != unix.AT_FDCWD {
		return fmt.Sprintf("/proc/%d/fd/%d", n.PID, fd)
	}
	return fmt.Sprintf("/proc/%d/cwd/.", n.PID)
}

// pathOfLink returns the path to which a link in /proc leads. It returns "" if there is no such link,
// or if the link leads to a pipe or a socket, or to a file whose name was removed. It returns an error
// if the path is too long or the process's files are hidden from this one.
func pathOfLink(link string) (string, error) {
	at, err := os.Readlink(link)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", nil
	case err != nil || !strings.HasPrefix(at, "/"):
		return "", err
	}
	if strings.HasSuffix(at, " (deleted)") {
		if _, err := os.Lstat(at); err != nil {
			return "", nil
		}
	}
	return at, nil
}

// SocketPath returns the absolute path that a Bind gives to a socket, without resolving symlinks. It
// returns "" if the socket gets no name in a file system.
func (n *Notice) SocketPath() (string, error) {
	const (
		addrArg, sizeArg = 1, 2
		pathAt           = 2 // the address begins with its family
	)
	b := make([]byte, min(n.Args[sizeArg], unix.SizeofSockaddrUnix))
	if len(b) <= pathAt {
		return "", nil
	}
	if !n.read()(n.PID, n.Args[addrArg], b) {
		return "", ErrHidden
	}
	family := binary.NativeEndian.Uint16(b)
	name, _, _ := bytes.Cut(b[pathAt:], []byte{0})
	if family != unix.AF_UNIX || len(name) == 0 { // an abstract address begins with a NUL, so its name is empty here
		return "", nil
	}
	n.named, n.name = addrArg, string(name)
	return n.Path(-1, addrArg, false)
}

// OpenFlags returns the flags of an Open or Open2.
func (n *Notice) OpenFlags(c Call) (uint64, error) {
	switch {
	case c.Op == Open2:
		var how [8]byte
		if !n.read()(n.PID, n.Args[c.Flags], how[:]) {
			return 0, ErrHidden
		}
		return binary.NativeEndian.Uint64(how[:]), nil
	case c.Flags < 0: // creat
		return unix.O_CREAT | unix.O_WRONLY | unix.O_TRUNC, nil
	}
	return n.Args[c.Flags], nil
}

// InRoot reports whether an Open2 takes its directory for the root (RESOLVE_IN_ROOT).
func (n *Notice) InRoot(c Call) bool {
	var how [24]byte
	return n.read()(n.PID, n.Args[c.Flags], how[:]) && binary.NativeEndian.Uint64(how[16:])&unix.RESOLVE_IN_ROOT != 0
}
