//go:build linux && (amd64 || arm64)

package outside

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"cachebro/store/leaf/notifier"
	"cachebro/store/leaf/text"
	"cachebro/store/wire"

	"golang.org/x/sys/unix"
)

// Watch hands the calls of a tree to a recorder. It belongs to the process that starts the tree,
// because if only an ancestor may read the memory that a call points to, that process reads it
// for the recorder.
type Watch struct {
	paths    wire.Paths
	begin    []byte // the packet that announces the tree
	socket   string
	start    func() error // starts a recorder
	trouble  func(error)  // called once, when calls can no longer be recorded
	gap      func()       // called when a recorder has died and another one continues
	listener int
	memfd    int
	page     page

	// These belong to the goroutine that serves.
	conn   int // -1: there is none
	starts []time.Time
	failed bool
	looked [unseenAt]byte // the notices as of the previous check

	ended chan bool // the tree has no processes left
	stop  [2]int    // a pipe that ends serve
	once  sync.Once
}

const (
	startWithin = 5 * time.Second
	// mostStarts bounds how often a recorder is started within startsWindow. One that dies
	// repeatedly is of no use.
	mostStarts   = 5
	startsWindow = 10 * time.Second
)

// Begin runs work so that the user's recorder sees the calls of the processes that work starts.
// start starts a recorder. gap is called when a recorder has died and another one continues,
// trouble when none can be started. failed is the error that work returned. If the calls cannot
// be seen, work is not run, and err says why.
func Begin(p wire.Paths, start, work func() error, trouble func(error), gap func()) (w *Watch, failed, err error) {
	return begin(p, []byte{doWatch}, start, work, trouble, gap)
}

// Watched runs work, which is code of cachebro's, on a thread whose calls the recorder sees, so
// that they are recorded in the histories. If that is impossible, it returns false without having
// run work.
func Watched(p wire.Paths, self string, start, work func() error) (bool, error) {
	w, failed, err := begin(p, []byte{doWatch, 1}, start, work, func(error) {}, func() {})
	if err != nil {
		return false, nil
	}
	unseen, serr := w.End(self)
	if unseen > 0 {
		serr = errors.Join(serr, fmt.Errorf("%s could not be looked at", text.Count(unseen, "system call")))
	}
	return true, errors.Join(failed, serr)
}

// begin runs work on a thread of its own under the filter, which the processes that it
// starts inherit.
func begin(p wire.Paths, packet []byte, start, work func() error, trouble func(error), gap func()) (w *Watch, failed, err error) {
	type under struct {
		listener int
		err      error
	}
	entered, watched, done := make(chan under), make(chan struct{}), make(chan error, 1)
	go func() {
		fd, err := notifier.Under(Filter())
		entered <- under{fd, err}
		if err == nil {
			<-watched
			done <- work()
		}
		// The thread ends with the goroutine, which is locked to it.
	}()
	u := <-entered
	if u.err != nil {
		return nil, nil, u.err
	}
	w = newWatch(p, packet, u.listener, start, trouble, gap)
	close(watched)
	return w, <-done, nil
}

func newWatch(p wire.Paths, begin []byte, listener int, start func() error, trouble func(error), gap func()) *Watch {
	w := &Watch{paths: p, begin: begin, start: start, trouble: trouble, gap: gap, listener: listener, memfd: -1, conn: -1, ended: make(chan bool, 1), stop: [2]int{-1, -1}}
	// The pipe comes first, because End must be able to stop serve whatever else fails. The
	// filter may be installed in the main thread, which does not end, so the listener may never
	// report that the tree has ended.
	err := unix.Pipe2(w.stop[:], unix.O_CLOEXEC)
	if err == nil {
		w.socket, err = p.NetSocket()
	}
	if err == nil {
		w.memfd, err = unix.MemfdCreate("cachebro-calls", unix.MFD_CLOEXEC)
	}
	if err == nil {
		err = unix.Ftruncate(w.memfd, pageSize)
	}
	if err == nil {
		w.page, err = mapPage(w.memfd)
	}
	if err == nil {
		err = w.attach()
	}
	if w.page == nil {
		w.page = make(page, pageSize)
	}
	if err != nil {
		w.fail(err)
	}
	go func() { w.ended <- w.serve() }()
	return w
}

// fail lets all further calls through without recording them, and calls trouble.
func (w *Watch) fail(err error) {
	w.failed = true
	w.drop()
	w.once.Do(func() { w.trouble(err) })
}

func (w *Watch) drop() {
	if w.conn >= 0 {
		unix.Close(w.conn)
	}
	w.conn = -1
}

// attach finds or starts a recorder, and hands it the tree.
func (w *Watch) attach() error {
	var failed error
	for deadline := time.Now().Add(startWithin); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		conn, err := dial(w.socket)
		if err != nil {
			err = w.start()
			if err == nil {
				conn, err = dial(w.socket)
			}
		}
		if err == nil {
			err = ask(conn, w.begin, startWithin, w.listener, w.memfd)
			if err == nil {
				w.conn = conn
				return nil
			}
			unix.Close(conn) // that recorder was about to end
		}
		failed = err
	}
	return fmt.Errorf("the recorder does not answer: %w", failed)
}

// restart starts another recorder.
func (w *Watch) restart() {
	now := time.Now()
	w.starts = keep(w.starts, func(t time.Time) bool { return now.Sub(t) < startsWindow })
	w.starts = append(w.starts, now)
	if len(w.starts) > mostStarts {
		w.fail(errors.New("the recorder has ended too often"))
		return
	}
	if err := w.attach(); err != nil {
		w.fail(err)
		return
	}
	w.gap()
}

// serve keeps a recorder attached to the tree until it is stopped. If a recorder ends, it is
// unknown whether it has looked at the calls that it received, so the next one gets them again.
// serve reports whether the tree has ended.
func (w *Watch) serve() (ended bool) {
	for !w.failed {
		if w.read() {
			return false
		}
		if notifier.NoProcessLeft(w.listener) { // the recorder then closes the connection, too
			return true
		}
		w.drop()
		w.restart()
	}
	for _, b := range w.page.notices() {
		if n := notifier.Unanswered(w.listener, b); n != nil {
			w.page.unseen(1)
			notifier.Continue(w.listener, n.ID)
		}
	}
	return notifier.Serve(w.listener, w.stop[0], make([]byte, notifier.NoticeSize), func(*notifier.Notice) { w.page.unseen(1) })
}

// read reads the memory of the tree's processes that the recorder asks for, until the
// recorder ends. It reports whether it was stopped.
func (w *Watch) read() (stopped bool) {
	var b [mostRead]byte
	for alike := 0; ; {
		pfd := []unix.PollFd{{Fd: int32(w.conn), Events: unix.POLLIN}, {Fd: int32(w.stop[0]), Events: unix.POLLIN}}
		n, err := unix.Poll(pfd, int(lookEvery.Milliseconds()))
		switch {
		case err != nil && err != unix.EINTR:
			return false
		case n == 0 && !w.waitsSince():
			alike = 0
		case n == 0:
			alike++
		}
		if alike == mostAlike {
			w.endRecorder()
			return false
		}
		if pfd[1].Revents != 0 {
			return true
		}
		if pfd[0].Revents == 0 {
			continue
		}
		n, _, err = unix.Recvfrom(w.conn, b[:], 0)
		if err != nil || n != readSize {
			return false
		}
		pid, addr, size := asRead(b[:n])
		answer := b[:min(size, mostRead)]
		if !notifier.Peek(pid, addr, answer) {
			answer = nil
		}
		if err := unix.Sendto(w.conn, answer, unix.MSG_NOSIGNAL, nil); err != nil {
			return false
		}
	}
}

// A recorder that is stopped or hangs would block the command for ever. So it is killed if a call
// waits and nothing has changed in mostAlike successive checks. A recorder that is merely busy is
// not affected, because it lets a call through after heldFor.
const (
	lookEvery = 3 * time.Second
	mostAlike = 3
)

// waitsSince reports whether a call waits and nothing has happened since the previous check.
func (w *Watch) waitsSince() bool {
	pfd := []unix.PollFd{{Fd: int32(w.listener), Events: unix.POLLIN}}
	_, _ = unix.Poll(pfd, 0)
	waits := pfd[0].Revents&unix.POLLIN != 0
	var now [unseenAt]byte
	copy(now[:], w.page)
	for _, b := range w.page.notices() {
		waits = waits || notifier.Unanswered(w.listener, b) != nil
	}
	same := now == w.looked
	w.looked = now
	return waits && same
}

// endRecorder kills the recorder. The next one continues where the killed one stopped.
func (w *Watch) endRecorder() {
	if cred, err := unix.GetsockoptUcred(w.conn, unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
		_ = unix.Kill(int(cred.Pid), unix.SIGKILL)
	}
}

// End is called when the command has ended. Processes that the command left running are watched
// by the recorder alone from now on. self is this binary. unseen is the number of calls that were
// let through without being looked at.
func (w *Watch) End(self string) (unseen int, err error) {
	err = Settle(w.paths, SettleWithin, w.start)
	_, _ = unix.Write(w.stop[1], []byte{0})
	if ended := <-w.ended; !ended && w.failed {
		if fd, derr := unix.Dup(w.listener); derr == nil {
			notifier.ServeRemaining(self, os.NewFile(uintptr(fd), "listener"))
		}
	}
	w.drop()
	for _, fd := range []int{w.stop[0], w.stop[1], w.memfd, w.listener} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	unseen = w.page.unseen(0)
	_ = unix.Munmap(w.page) // fails if it was not mapped
	return unseen, err
}
