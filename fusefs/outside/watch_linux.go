//go:build linux && (amd64 || arm64)

package outside

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"cachebro/store/leaf/notifier"
	"cachebro/store/leaf/text"
	"cachebro/store/wire"

	"golang.org/x/sys/unix"
)

// Watch passes the system calls of a tree of processes to a recorder. It belongs to the process
// that starts the tree. On systems where only an ancestor may read a process's memory, the Watch
// reads the arguments of calls for the recorder.
type Watch struct {
	Runner
	begin    []byte // the packet that announces the tree
	socket   string
	listener int
	memfd    int
	page     page

	// Only the goroutine that runs serve uses these fields.
	conn   int // connection to the recorder, or -1
	starts []time.Time
	failed bool
	looked [unseenAt]byte // the notices in the page at the previous check

	called atomic.Bool // the tree has made a call
	ended  chan bool   // receives a value when the tree has no process left
	stop   [2]int      // a pipe that ends serve
	life   int         // the write end of the holder's pipe, or -1; see hold
	once   sync.Once
}

const (
	startWithin = 5 * time.Second
	// maxStarts bounds how often a recorder is started within startsWindow, in case it keeps
	// dying.
	maxStarts    = 5
	startsWindow = 10 * time.Second
)

// Runner is what the program that runs a tree supplies. A goroutine of the Watch calls its
// functions while the tree waits.
type Runner struct {
	Paths   wire.Paths
	Take    []string     // a command that runs Take, and is run if this process is killed before a recorder has the tree; nil: none
	Env     []string     // environment of Take
	Start   func() error // starts a recorder
	First   func()       // called before the first reported call of the tree is examined
	Trouble func(error)  // called once, when calls can no longer be recorded
	Gap     func()       // called when a recorder has died and another continues
}

// Begin runs work so that the user's recorder sees the calls of the processes that work starts.
// Only calls that can change something are reported. Most commands make none, so the recorder is
// started at the first one. failed is the error of work. If calls cannot be reported, work does not
// run and err says why.
func Begin(r Runner, work func() error) (w *Watch, failed, err error) {
	return begin(r, []byte{doWatch}, work)
}

// Watched runs work, which is code of cachebro, on a thread whose calls the recorder sees and
// records. If that is impossible, it returns false without running work.
func Watched(p wire.Paths, self string, start, work func() error) (bool, error) {
	w, failed, err := begin(Runner{Paths: p, Start: start, First: func() {}, Trouble: func(error) {}, Gap: func() {}}, []byte{doWatch, 1}, work)
	if err != nil {
		return false, nil
	}
	unseen, serr := w.End(self)
	if unseen > 0 {
		serr = errors.Join(serr, fmt.Errorf("%s could not be examined", text.Count(unseen, "system call")))
	}
	return true, errors.Join(failed, serr)
}

// begin runs work on its own thread under the filter. The processes that work starts inherit the
// filter.
func begin(r Runner, packet []byte, work func() error) (w *Watch, failed, err error) {
	w, err = newWatch(r, packet)
	if err != nil {
		return nil, nil, err
	}
	entered, watched, done := make(chan error), make(chan struct{}), make(chan error, 1)
	onThread(func() {
		var err error
		w.listener, err = notifier.Under(Filter())
		entered <- err
		if err == nil {
			<-watched
			done <- work()
		}
	})
	if err := <-entered; err != nil {
		w.close()
		return nil, nil, err
	}
	w.hold()
	go func() { w.ended <- w.serve() }()
	close(watched)
	return w, <-done, nil
}

// onThread runs f on a thread that ends with f. It never uses the main thread: that thread never
// ends, so its filter would keep the listener from reporting the end of the tree.
func onThread(f func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != os.Getpid() {
			f() // the goroutine stays locked, so its thread ends too
			return
		}
		began := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(began)
			f()
		}()
		<-began
		runtime.UnlockOSThread()
	}()
}

// newWatch makes a Watch that has no listener yet.
func newWatch(r Runner, begin []byte) (*Watch, error) {
	w := &Watch{Runner: r, begin: begin, listener: -1, memfd: -1, conn: -1, life: -1, ended: make(chan bool, 1), stop: [2]int{-1, -1}}
	_, err := r.Paths.MakeState(wire.OutsideRoot) // the directory for saved contents
	if err == nil {
		w.socket, err = r.Paths.NetSocket()
	}
	if err == nil {
		err = unix.Pipe2(w.stop[:], unix.O_CLOEXEC)
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
	if err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// hold starts a process that also holds the listener until a recorder has it. If this process is
// killed before, the kernel would otherwise refuse what the tree wants to change. The process is a
// shell, because that costs 1 ms. If there is no shell, nobody holds the listener.
func (w *Watch) hold() {
	var pipe [2]int
	if w.Take == nil || unix.Pipe2(pipe[:], unix.O_CLOEXEC) != nil {
		return
	}
	defer unix.Close(pipe[0])
	w.life = pipe[1]
	const closed = ^uintptr(0)
	pid, err := syscall.ForkExec("/bin/sh", append([]string{"sh", "-c", `read -r x <&5 || exec "$@"`, "cachebro"}, w.Take...), &syscall.ProcAttr{
		Dir: "/", Env: w.Env, Sys: &syscall.SysProcAttr{Setsid: true},
		Files: []uintptr{closed, closed, closed, uintptr(w.listener), uintptr(w.memfd), uintptr(pipe[0])},
	})
	if err == nil {
		go func() { _, _ = unix.Wait4(pid, nil, 0, nil) }()
	}
}

// release ends the holder.
func (w *Watch) release() {
	if w.life >= 0 {
		_, _ = unix.Write(w.life, []byte("\n"))
		unix.Close(w.life)
	}
	w.life = -1
}

// Take passes the tree of a killed process to a recorder. The tree's listener and its page are the
// descriptors 3 and 4, as hold passes them. If there is no recorder, Take lets the calls through.
func Take(r Runner) error {
	for fd := 3; fd <= 5; fd++ {
		unix.CloseOnExec(fd)
	}
	socket, err := r.Paths.NetSocket()
	w := &Watch{Runner: r, begin: []byte{doWatch}, socket: socket, listener: 3, memfd: 4, life: -1}
	if err == nil {
		err = w.attach()
	}
	if err != nil {
		notifier.Serve(w.listener, -1, make([]byte, notifier.NoticeSize), nil)
	}
	return err
}

func (w *Watch) close() {
	w.drop()
	w.release()
	for _, fd := range []int{w.stop[0], w.stop[1], w.memfd, w.listener} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	if w.page != nil {
		_ = unix.Munmap(w.page)
	}
}

// fail lets all further calls through unrecorded, and calls Trouble.
func (w *Watch) fail(err error) {
	w.failed = true
	w.drop()
	w.once.Do(func() { w.Trouble(err) })
}

func (w *Watch) drop() {
	if w.conn >= 0 {
		unix.Close(w.conn)
	}
	w.conn = -1
}

// attach finds or starts a recorder, and passes the tree to it.
func (w *Watch) attach() error {
	var failed error
	for deadline := time.Now().Add(startWithin); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		conn, err := dial(w.socket)
		if err != nil {
			err = w.Start()
			if err == nil {
				conn, err = dial(w.socket)
			}
		}
		if err == nil {
			w.release() // before the recorder has the tree, so that it never gets the tree twice
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

func (w *Watch) restart() {
	now := time.Now()
	w.starts = keep(w.starts, func(t time.Time) bool { return now.Sub(t) < startsWindow })
	w.starts = append(w.starts, now)
	if len(w.starts) > maxStarts {
		w.fail(errors.New("the recorder has ended too often"))
		return
	}
	if err := w.attach(); err != nil {
		w.fail(err)
		return
	}
	w.Gap()
}

// serve waits for the first call of the tree, then keeps a recorder attached until it is stopped.
// If a recorder ends, the calls that it had received may not have been examined, so the next
// recorder gets them again. serve reports whether the tree has ended.
func (w *Watch) serve() (ended bool) {
	if !w.awaitCall() {
		return true
	}
	w.First()
	if err := w.attach(); err != nil {
		w.fail(err)
	}
	for !w.failed {
		if w.read() {
			return false
		}
		if notifier.NoProcessLeft(w.listener) { // the tree has ended, so the recorder closed the connection; it did not die
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

// awaitCall returns true when the tree has made its first call, or when the command has ended but
// left processes running, which only a recorder can watch. It returns false if the tree ended
// without a call. It does not receive the call itself, because the recorder, which may be in
// another PID namespace, must receive it.
func (w *Watch) awaitCall() bool {
	pfd := []unix.PollFd{{Fd: int32(w.listener), Events: unix.POLLIN}, {Fd: int32(w.stop[0]), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(pfd, -1)
		switch {
		case err == unix.EINTR:
		case pfd[0].Revents&unix.POLLIN != 0:
			w.called.Store(true)
			return true
		case pfd[0].Revents&unix.POLLHUP != 0:
			return false
		default: // the command has ended, and its last processes are about to end
			_, _ = unix.Poll(pfd[:1], int(endsWithin.Milliseconds()))
			return pfd[0].Revents&unix.POLLHUP == 0
		}
	}
}

// endsWithin is how long the last processes may take to disappear after the command has ended.
const endsWithin = 50 * time.Millisecond

// read reads memory of the tree's processes for the recorder until the recorder ends. It reports
// whether it was stopped.
func (w *Watch) read() (stopped bool) {
	var b [maxRead]byte
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
		if alike == maxUnchanged {
			w.endRecorder()
			return false
		}
		if pfd[1].Revents != 0 {
			return true
		}
		if pfd[0].Revents == 0 {
			continue
		}
		n, err = receive(w.conn, b[:])
		if err != nil || n != readSize {
			return false
		}
		pid, addr, size := parseRead(b[:n])
		answer := b[:min(size, maxRead)]
		if !notifier.Peek(pid, addr, answer) {
			answer = nil
		}
		if err := unix.Sendto(w.conn, answer, unix.MSG_NOSIGNAL, nil); err != nil {
			return false
		}
	}
}

// A recorder that is stopped or hangs would block the command forever. The recorder is therefore
// killed if a call waits and nothing changed in maxUnchanged successive checks. A busy recorder is not
// affected, because it lets calls through after heldFor.
const (
	lookEvery    = 3 * time.Second
	maxUnchanged = 3
)

// waitsSince reports whether a call waits and nothing has changed since the previous check.
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

// endRecorder kills the recorder. The next recorder continues where this one stopped.
func (w *Watch) endRecorder() {
	if cred, err := unix.GetsockoptUcred(w.conn, unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
		_ = unix.Kill(int(cred.Pid), unix.SIGKILL)
	}
}

// End ends the Watch after the command has ended. From then on only the recorder watches the
// processes that the command left running. self is the path of this program. unseen is the number
// of calls that were let through unexamined.
func (w *Watch) End(self string) (unseen int, err error) {
	if w.called.Load() {
		err = Settle(w.Paths, SettleWithin, w.Start)
	}
	_, _ = unix.Write(w.stop[1], []byte{0})
	if ended := <-w.ended; !ended && w.failed {
		if fd, derr := unix.Dup(w.listener); derr == nil {
			notifier.ServeRemaining(self, os.NewFile(uintptr(fd), "listener"))
		}
	}
	unseen = w.page.unseen(0)
	w.close()
	return unseen, err
}
