//go:build linux && (amd64 || arm64)

package notifier

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// NoticeSize is the size of the kernel's notice.
const NoticeSize = 80

// Notice is a call that waits for an answer (struct seccomp_notif).
type Notice struct {
	ID   uint64
	PID  uint32 // ID of the thread
	NR   int32
	Arch uint32
	Args [6]uint64

	// Read reads the caller's memory; nil means Peek.
	Read func(pid uint32, addr uint64, buf []byte) bool

	// name caches the string of one argument as it was first read. named is the argument's number.
	named int8
	name  string
	cwd   string // the caller's working directory, if it was read; see Path
}

func (n *Notice) decode(b []byte) {
	e := binary.NativeEndian
	n.name, n.cwd = "", ""
	n.ID, n.PID = e.Uint64(b), e.Uint32(b[8:])
	n.NR, n.Arch = int32(e.Uint32(b[16:])), e.Uint32(b[20:])
	for i := range n.Args {
		n.Args[i] = e.Uint64(b[32+8*i:])
	}
}

// Foreign reports whether the call belongs to another architecture, where numbers have other
// meanings.
func (n *Notice) Foreign() bool {
	return n.Arch != AuditArch || ForeignFrom > 0 && uint32(n.NR) >= ForeignFrom
}

func ioctl(fd int, req uint, arg unsafe.Pointer) syscall.Errno {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(req), uintptr(arg))
	return errno
}

// Continue answers the call with this ID, so that the kernel carries it out.
func Continue(fd int, id uint64) {
	var resp [24]byte
	binary.NativeEndian.PutUint64(resp[:], id)
	binary.NativeEndian.PutUint32(resp[20:], unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE)
	ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&resp))
}

// Waits reports whether the call is still waiting. If not, its thread was killed.
func (n *Notice) Waits(fd int) bool {
	id := n.ID
	return ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&id)) == 0
}

// Unanswered returns the waiting call whose notice is in b, or nil if there is none. Such a call
// exists if a process was killed in Serve after it received the call.
func Unanswered(fd int, b []byte) *Notice {
	n := &Notice{}
	n.decode(b)
	if n.PID == 0 || !n.Waits(fd) {
		return nil
	}
	return n
}

// Serve calls see, which may be nil, with every call and then lets the call continue. It returns
// true when no process is left under the filter, and false when stop (a descriptor, or -1) becomes
// readable. It stores the notice in buf, of NoticeSize bytes. If buf is shared memory and this
// process is killed, another process can answer the call that this one had received (see
// Unanswered).
func Serve(fd, stop int, buf []byte, see func(*Notice)) (ended bool) {
	// Let caller and holder wake each other on one processor (SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP).
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SECCOMP_IOCTL_NOTIF_SET_FLAGS, 1)
	clear(buf)
	shown := arrivalsOf(fd, stop)
	if shown != nil {
		defer shown.Close()
	}
	var n Notice
	pfd := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(stop), Events: unix.POLLIN}}
	began := time.Now() // when the present pause between calls began
	inBurst := true
	for {
		ready, err := shown.poll(pfd, inBurst && time.Since(began) < burstPause)
		switch {
		case err == unix.EINTR || err == nil && ready == 0:
			continue
		case err != nil:
			return false
		}
		inBurst = time.Since(began) < burstPause
		if pfd[0].Revents&unix.POLLIN == 0 {
			return pfd[0].Revents&unix.POLLHUP != 0 // the last process has ended
		}
		// If the caller was killed meanwhile, the ioctl blocks until the next call or the end.
		switch errno := ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&buf[0])); errno {
		case 0:
			n.decode(buf)
			if see != nil {
				see(&n)
			}
			Continue(fd, n.ID)
			clear(buf) // the kernel requires an empty buffer, and the notice must not look like a waiting call
			began = time.Now()
		case unix.EINTR, unix.ENOENT:
		default:
			return false
		}
	}
}

// burstPause is the longest pause within a burst of calls. During a burst, Serve waits in ppoll(2):
// the kernel then switches directly from the caller to this thread and back on one processor, and
// Go's scheduler has nothing to do. After a longer pause, Serve waits with Go's poller until calls
// follow each other fast again.
const burstPause = 2 * time.Millisecond

// holding is the number of processors that goroutines hold in pollBurst.
var holding atomic.Int32

// hold adds one to holding, provided that a processor is left for other goroutines.
func hold() bool {
	if int(holding.Add(1)) < runtime.GOMAXPROCS(0) {
		return true
	}
	holding.Add(-1)
	return false
}

// pollBurst is poll(2) for at most burstPause. It holds its processor while it waits. During an
// ordinary system call, the runtime's monitor thread often checks whether to take the processor
// away. These checks were a fifth of the cost of making a file.
func pollBurst(pfd []unix.PollFd) (int, error) {
	atMost := unix.NsecToTimespec(burstPause.Nanoseconds())
	n, _, errno := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&pfd[0])), uintptr(len(pfd)), uintptr(unsafe.Pointer(&atMost)), 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// arrivals waits for the first call of a burst with Go's poller. If a thread waited in poll(2)
// instead, Go's runtime would check the thread every 20 µs. These checks were 40 % of the cost of
// the calls of "git status". The poller watches an epoll descriptor, which watches the listener
// only during await. If the poller watched the listener itself, each call would wake a thread
// twice.
type arrivals struct {
	*os.File // the epoll descriptor
	conn     syscall.RawConn
	epoll    int
	listener int
}

// arrivalsOf returns nil if the poller cannot be used or Serve must also wait for stop.
func arrivalsOf(fd, stop int) *arrivals {
	if stop >= 0 {
		return nil
	}
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil
	}
	err = errors.Join(unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLONESHOT}), unix.SetNonblock(epoll, true))
	f := os.NewFile(uintptr(epoll), "listener")
	conn, cerr := f.SyscallConn()
	if err != nil || cerr != nil || f.SetReadDeadline(time.Time{}) != nil { // the poller does not support it
		f.Close()
		return nil
	}
	return &arrivals{f, conn, epoll, fd}
}

// poll is poll(2) of the listener and the descriptor that stops Serve. It may return without a
// result.
func (a *arrivals) poll(pfd []unix.PollFd, inBurst bool) (int, error) {
	switch {
	case a == nil:
		return unix.Poll(pfd, -1)
	case inBurst && hold():
		defer holding.Add(-1)
		return pollBurst(pfd)
	case a.await() != nil:
		return unix.Poll(pfd, -1) // until a call has arrived, as without the poller
	}
	return unix.Poll(pfd, 0)
}

// await returns when a call has arrived or the last process has ended, or with an error.
func (a *arrivals) await() error {
	err := unix.EpollCtl(a.epoll, unix.EPOLL_CTL_MOD, a.listener, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT})
	if err != nil {
		return err
	}
	var failed error
	err = a.conn.Read(func(fd uintptr) bool {
		var arrived [1]unix.EpollEvent
		var n int
		n, failed = unix.EpollWait(int(fd), arrived[:], 0)
		return n > 0 || failed != nil
	})
	return errors.Join(err, failed)
}

// NoProcessLeft reports whether no process is left under a filter.
func NoProcessLeft(fd int) bool {
	pfd := []unix.PollFd{{Fd: int32(fd)}}
	n, err := unix.Poll(pfd, 0)
	return err == nil && n > 0 && pfd[0].Revents&unix.POLLHUP != 0
}

// ServeRemaining starts the program self, which answers the calls of all processes that are still
// under the filter after their command has ended. Otherwise their calls would fail.
func ServeRemaining(self string, listener *os.File) {
	server := &exec.Cmd{Path: self, Args: []string{"cachebro", "traced", "serve"}, Dir: "/", Env: []string{},
		ExtraFiles: []*os.File{listener}, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	if server.Start() == nil {
		_ = server.Process.Release()
	}
}
