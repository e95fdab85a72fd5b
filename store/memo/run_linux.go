//go:build linux && (amd64 || arm64)

package memo

import (
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"cachebro/store/leaf/notifier"

	"golang.org/x/sys/unix"
)

// stopWait is how long to wait for processes that the command left running.
const stopWait = 500 * time.Millisecond

// maxWatched limits the number of inherited descriptors whose reads are watched.
const maxWatched = 16

// Run runs a command to its end and watches it. If it cannot be watched, it runs unwatched, and
// Outcome.Why says so.
func Run(o Options) (Outcome, error) {
	var out Outcome
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return out, err
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "watch"), os.NewFile(uintptr(pair[1]), "watched")
	defer ours.Close()
	rec, r := &recording{}, newRecorder(o.Places)
	r.timeless = o.Timeless
	var watched []string
	for _, fd := range inherited() {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil {
			r.given[fd] = st
			watched = append(watched, strconv.Itoa(fd))
		}
	}
	r.hasIn = stdinKind(o.Stdin) != "null"
	if r.hasIn {
		var st unix.Stat_t
		if unix.Fstat(int(o.Stdin.Fd()), &st) == nil {
			r.given[0] = st
			watched = append(watched, "0")
		}
	}
	if len(watched) > maxWatched {
		r.refuse("was given more than %d descriptors", maxWatched)
		watched = watched[:maxWatched]
	}
	cmd := &exec.Cmd{Path: o.Self, Args: append([]string{"cachebro", "traced", strings.Join(watched, ","), o.Program}, o.Args...), Dir: o.Dir, Env: o.Env, Stdin: o.Stdin, ExtraFiles: []*os.File{theirs}}
	start, err := plumb(cmd, &o, rec)
	if err != nil {
		theirs.Close()
		return out, err
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	began := time.Now()
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		start()()
		return out, err
	}
	finish := start()
	done, passed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(passed)
		for {
			select {
			case <-done:
				return
			case sig := <-signals:
				r.refuse("was sent a signal")
				if o.Pass == nil || o.Pass(sig) {
					_ = cmd.Process.Signal(sig)
				}
			}
		}
	}()
	watch := newWatch(ours, r)
	out.Err = cmd.Wait()
	out.Took = time.Since(began)
	close(done)
	<-passed
	if watch != nil && !watch.end(o.Self) {
		r.refuse("left a process running")
	}
	finish()
	if out.Err != nil {
		r.refuse("failed: %v", out.Err)
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	out.Output = rec.chunks
	if rec.over {
		r.refuse("wrote more than %d MB", maxOutput>>20)
	}
	out.Seen, out.Why = r.judge(o.Classifier, o.AllowOutside)
	return out, nil
}

// watch answers the calls of a command's process tree.
type watch struct {
	listener, stop, wake int
	ended                chan bool
}

// newWatch starts answering the calls. It returns nil if the command runs unwatched. r then has the
// reason.
func newWatch(sock *os.File, r *recorder) *watch {
	fd, err := notifier.Receive(sock)
	if err != nil {
		r.refuse("could not be watched: %v", err)
		return nil
	}
	w := &watch{listener: fd, ended: make(chan bool, 1)}
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		r.refuse("could not be watched: %v", err)
		p = [2]int{-1, -1}
	}
	w.stop, w.wake = p[0], p[1]
	go func() { w.ended <- notifier.Serve(w.listener, w.stop, make([]byte, notifier.NoticeSize), r.see) }()
	return w
}

// end waits until no process is left, or until stopWait has passed. In the latter case it starts
// another process to answer the calls, and returns false.
func (w *watch) end(self string) bool {
	gone := false
	select {
	case gone = <-w.ended:
	case <-time.After(stopWait):
		_, _ = unix.Write(w.wake, []byte{0})
		gone = <-w.ended
	}
	if !gone {
		notifier.ServeRemaining(self, os.NewFile(uintptr(w.listener), "listener"))
	} else {
		unix.Close(w.listener)
	}
	for _, fd := range []int{w.stop, w.wake} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	return gone
}

// Traced is the sub-command that Run starts. Descriptor 3 is its socket, or the listener. Traced
// returns only if it could not execute the command.
func Traced(args, env []string) error {
	const given = 3
	if len(args) == 1 && args[0] == "serve" {
		notifier.Serve(given, -1, make([]byte, notifier.NoticeSize), nil) // answer the calls of processes that were left running
		return nil
	}
	if len(args) < 3 {
		return os.ErrInvalid
	}
	unix.CloseOnExec(given)
	var watched []int
	for fd := range strings.SplitSeq(args[0], ",") {
		if n, err := strconv.Atoi(fd); err == nil {
			watched = append(watched, n)
		}
	}
	err := notifier.ExecFiltered(given, filter(watched), args[1], args[2:], env)
	// Without the filter, the command runs unwatched.
	_ = unix.Sendmsg(given, []byte(err.Error()), nil, nil, 0)
	return syscall.Exec(args[1], args[2:], env)
}
