package outside

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"cachebro/store/wire"

	"golang.org/x/sys/unix"
)

// The first byte of a packet on the socket is the kind of the request: one of these, or
// wire.NetStart. The reply consists of the same byte.
const (
	// doWatch asks the recorder to watch a tree. The descriptors of the tree's listener and of its
	// page of memory are attached. A second byte means that the tree carries out a plan of
	// cachebro, such as an undo. After the reply, the recorder sends requests to read memory on
	// this connection; see tree.read.
	doWatch = 'w'
	// doSettle asks the recorder to record the present state of every path that its trees have
	// touched.
	doSettle = 's'
)

func dial(socket string) (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: socket}); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// ask sends a request, with descriptors, and waits for the reply.
func ask(conn int, packet []byte, within time.Duration, fds ...int) error {
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	tv := unix.NsecToTimeval(int64(within))
	if err := unix.SetsockoptTimeval(conn, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
		return err
	}
	if err := unix.Sendmsg(conn, packet, rights, nil, unix.MSG_NOSIGNAL); err != nil {
		return err
	}
	var b [1]byte
	n, err := receive(conn, b[:])
	if err == nil && (n == 0 || b[0] != packet[0]) {
		err = errors.New("the recorder has ended")
	}
	return err
}

// receive is recvfrom(2), repeated while a signal interrupts it.
func receive(conn int, b []byte) (int, error) {
	for {
		n, _, err := unix.Recvfrom(conn, b, 0)
		if err != unix.EINTR {
			return n, err
		}
	}
}

// Settle makes the user's recorder record the present state of every path that its trees have
// touched. If no recorder is running but a killed recorder left a journal, Settle calls start to
// start a new one.
func Settle(p wire.Paths, within time.Duration, start func() error) error {
	socket, err := p.NetSocket()
	if err != nil {
		return err
	}
	conn, err := dial(socket)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) {
		state, serr := p.State(wire.OutsideRoot)
		if serr != nil {
			return serr
		}
		if _, serr := os.Stat(filepath.Join(state, journalName)); serr != nil {
			return nil
		}
		if err := start(); err != nil {
			return err
		}
		conn, err = dial(socket)
	}
	if err != nil {
		return err
	}
	defer unix.Close(conn)
	return ask(conn, []byte{doSettle}, within)
}

// Start starts a recorder and returns when it accepts connections. exe is the path of this program.
func Start(p wire.Paths, exe string, env []string) error {
	state, err := p.MakeState(wire.OutsideRoot)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(state, "net.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	output, stdout, err := os.Pipe()
	if err != nil {
		return err
	}
	defer output.Close()
	cmd := &exec.Cmd{Path: exe, Args: []string{"cachebro", "net"}, Dir: "/", Env: env, Stdout: stdout, Stderr: log, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	err = WithTimerSlack(recorderSlack, cmd.Start)
	stdout.Close()
	if err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }()
	if line, _ := bufio.NewReader(output).ReadString('\n'); line != "ready\n" {
		return fmt.Errorf("the recorder of changes outside of mounts could not start; see %s", log.Name())
	}
	return nil
}

// recorderSlack is the timer slack of the recorder's threads. As long as anything runs in a Go
// program, its monitor thread wakes up every 20 µs at first, and later every 10 ms, and it begins
// again after each pause. That took more than a fourth of the recorder's processor time while
// programs like "git status" ran. A thread cannot set the slack of the monitor thread, but a new
// process inherits the slack.
const recorderSlack = 2 * time.Millisecond

// UsualSlack is the timer slack that a process has if nobody sets another one.
const UsualSlack = 50 * time.Microsecond

// WithTimerSlack runs f on a thread that has a timer slack, which is how late the kernel may wake a
// thread after the time for which it sleeps. A process that f starts inherits the slack. If the slack
// cannot be set, f runs all the same.
func WithTimerSlack(slack time.Duration, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	was, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err == nil && unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0) == nil {
		defer func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(was), 0, 0, 0) }()
	}
	return f()
}

// Possible reports whether the kernel can report system calls to a recorder.
func Possible() bool {
	action := uint32(unix.SECCOMP_RET_USER_NOTIF)
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	return errno == 0
}
