//go:build linux && (amd64 || arm64)

package memo

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data.
const (
	offNR   = 0
	offArch = 4
	offArgs = 16
)

func stmt(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }

func jump(code uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: code, Jt: yes, Jf: no, K: k}
}

// inputCalls take something from a descriptor, or another descriptor for it; it
// is this argument.
var inputCalls = map[uint32]uint32{unix.SYS_READ: 0, unix.SYS_READV: 0, unix.SYS_PREAD64: 0, unix.SYS_PREADV: 0, unix.SYS_PREADV2: 0, unix.SYS_DUP: 0, unix.SYS_DUP3: 0, sysDup2: 0,
	unix.SYS_FSTAT: 0, unix.SYS_LSEEK: 0, unix.SYS_SPLICE: 0, unix.SYS_TEE: 0, unix.SYS_COPY_FILE_RANGE: 0, unix.SYS_RECVFROM: 0, unix.SYS_RECVMSG: 0, unix.SYS_SENDFILE: 1, unix.SYS_MMAP: 4,
	unix.SYS_FGETXATTR: 0, unix.SYS_FLISTXATTR: 0}

// filter is the program that decides which system calls are shown to us: all but
// those that are known to bring nothing new. given: descriptors of which reads
// are shown as well.
func filter(given []int) []unix.SockFilter {
	const (
		load  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		least = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
		mask  = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
		ret   = unix.BPF_RET | unix.BPF_K
	)
	show, allow := stmt(ret, unix.SECCOMP_RET_USER_NOTIF), stmt(ret, unix.SECCOMP_RET_ALLOW)
	// Another architecture's calls (32 bit) have other numbers: all are shown,
	// which tells that there are some.
	p := []unix.SockFilter{stmt(load, offArch), jump(equal, auditArch, 1, 0), show, stmt(load, offNR)}
	if foreignFrom > 0 {
		p = append(p, jump(least, foreignFrom, 0, 1), show)
	}
	// Opens through a ring cannot be seen, nor can the flags of clone3. Programs do
	// without where there are none.
	for _, nr := range []uint32{unix.SYS_IO_URING_SETUP, unix.SYS_CLONE3} {
		p = append(p, jump(equal, nr, 0, 1), stmt(ret, unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS)))
	}
	for _, fd := range given { // whoever duplicates one may read it
		for nr, arg := range inputCalls {
			p = append(p, jump(equal, nr, 0, 4), stmt(load, offArgs+8*arg), jump(equal, uint32(fd), 0, 1), show, stmt(load, offNR))
		}
		p = append(p, jump(equal, unix.SYS_FCNTL, 0, 7), stmt(load, offArgs), jump(equal, uint32(fd), 0, 4), stmt(load, offArgs+8),
			jump(equal, unix.F_DUPFD, 1, 0), jump(equal, unix.F_DUPFD_CLOEXEC, 0, 1), show, stmt(load, offNR))
	}
	for _, q := range quietWith {
		p = append(p, jump(equal, q.nr, 0, uint8(2*len(q.values)+3)), stmt(load, offArgs+8*q.arg), stmt(mask, q.mask))
		for _, v := range q.values {
			p = append(p, jump(equal, v, 0, 1), allow)
		}
		p = append(p, show)
	}
	for _, nr := range slices.Concat(quiet, olderQuiet) {
		p = append(p, jump(equal, nr, 0, 1), allow)
	}
	return append(p, show)
}

// Enter puts this thread under the filter, hands the descriptor that shows its system
// calls to whoever has the other end of sock, and becomes the command. Only exec may
// follow: the filter applies to this thread alone, and its calls wait for an answer.
func Enter(sock int, given []int, path string, args, env []string) error {
	runtime.LockOSThread()
	prog := filter(given)
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	const listener = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER
	try := func(flags uintptr) (int, syscall.Errno) {
		fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&fprog)))
		return int(fd), errno
	}
	// Go's runtime interrupts its threads all the time; with the second flag a
	// call that has been taken up is not taken up again for that.
	fd, errno := try(listener | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
	if errno == unix.EACCES { // not privileged: first give up set-user-id programs
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("no_new_privs: %w", err)
		}
		fd, errno = try(listener | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
	}
	if errno == unix.EINVAL {
		fd, errno = try(listener)
	}
	if errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	if err := unix.Sendmsg(sock, []byte{1}, unix.UnixRights(fd), nil, 0); err != nil {
		return fmt.Errorf("hand over the listener: %w", err)
	}
	unix.CloseOnExec(sock)
	return syscall.Exec(path, args, env)
}

// receive gets the listener from a child, or what kept it from making one.
func receive(sock *os.File) (int, error) {
	buf, oob := make([]byte, 512), make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := unix.Recvmsg(int(sock.Fd()), buf, oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return -1, err
	}
	if n == 0 {
		return -1, errors.New("the command could not be started under watch")
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(msgs) != 1 {
		return -1, errors.New(string(buf[:n]))
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil || len(fds) != 1 {
		return -1, errors.New("no listener came")
	}
	return fds[0], nil
}

// notice is struct seccomp_notif.
type notice struct {
	id    uint64
	pid   uint32 // of the thread
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

func (n *notice) decode(b *[80]byte) {
	e := binary.NativeEndian
	n.id, n.pid, n.flags = e.Uint64(b[:]), e.Uint32(b[8:]), e.Uint32(b[12:])
	n.nr, n.arch, n.ip = int32(e.Uint32(b[16:])), e.Uint32(b[20:]), e.Uint64(b[24:])
	for i := range n.args {
		n.args[i] = e.Uint64(b[32+8*i:])
	}
}

func ioctl(fd int, req uint, arg unsafe.Pointer) syscall.Errno {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(req), uintptr(arg))
	return errno
}

// goOn lets the kernel carry out a call.
func goOn(fd int, id uint64) {
	var resp [24]byte
	binary.NativeEndian.PutUint64(resp[:], id)
	binary.NativeEndian.PutUint32(resp[20:], unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE)
	ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&resp))
}

// serve shows every call to see before it goes on, until nothing is left that
// is under the filter, or stop can be read. It reports which.
func serve(fd, stop int, see func(*notice)) (ended bool) {
	// The other side runs on our processor at once (SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP).
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SECCOMP_IOCTL_NOTIF_SET_FLAGS, 1)
	var n notice
	for {
		pfd := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(stop), Events: unix.POLLIN}}
		if _, err := unix.Poll(pfd, -1); err == unix.EINTR {
			continue
		} else if err != nil {
			return false
		}
		if pfd[0].Revents&unix.POLLIN == 0 {
			return pfd[0].Revents&unix.POLLHUP != 0 // the last process has ended
		}
		var b [80]byte
		// Blocks where the caller was killed since, until the next call or the end.
		switch errno := ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&b)); errno {
		case 0:
			n.decode(&b)
			if see != nil {
				see(&n)
			}
			goOn(fd, n.id)
		case unix.EINTR, unix.ENOENT:
		default:
			return false
		}
	}
}

// Serve lets everything go on that still is under the filter of a command that
// has ended itself; its calls would fail if nobody answered.
func Serve(listener int) { serve(listener, -1, nil) }
