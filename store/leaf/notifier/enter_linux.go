//go:build linux && (amd64 || arm64)

package notifier

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ExecFiltered puts this thread under a filter, sends the filter's listener through sock, and
// replaces this process by the command.
func ExecFiltered(sock int, prog []unix.SockFilter, path string, args, env []string) error {
	fd, err := Under(prog)
	if err != nil {
		return err
	}
	if err := unix.Sendmsg(sock, []byte{1}, unix.UnixRights(fd), nil, 0); err != nil {
		return fmt.Errorf("hand over the listener: %w", err)
	}
	unix.CloseOnExec(sock)
	return syscall.Exec(path, args, env)
}

// Under locks the goroutine to its thread, puts the thread under a filter permanently, and returns
// the listener. From then on, the selected calls of the thread wait for an answer.
func Under(prog []unix.SockFilter) (int, error) {
	runtime.LockOSThread()
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	const listener = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW
	try := func(flags uintptr) (int, syscall.Errno) {
		fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&fprog)))
		return int(fd), errno
	}
	// Go's runtime often interrupts its threads. With WAIT_KILLABLE_RECV, an interrupt does not
	// restart a call that the holder of the listener has already received.
	fd, errno := try(listener | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
	if errno == unix.EACCES { // unprivileged, so set-user-id programs must be disabled first
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return -1, fmt.Errorf("no_new_privs: %w", err)
		}
		fd, errno = try(listener | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
	}
	if errno == unix.EINVAL {
		fd, errno = try(listener)
	}
	if errno != 0 {
		return -1, fmt.Errorf("seccomp: %w", errno)
	}
	return fd, nil
}

// Receive receives the listener from a child, or the error that prevented the child from making it.
func Receive(sock *os.File) (int, error) {
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
		return -1, errors.New("the child sent no listener")
	}
	return fds[0], nil
}
