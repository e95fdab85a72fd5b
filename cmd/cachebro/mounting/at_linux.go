package mounting

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/fusefs"
	"cachebro/fusefs/mounts"
	"cachebro/fusefs/past"
	"cachebro/store/leaf/limits"
	"cachebro/store/leaf/loop"
	"cachebro/store/wire"

	"golang.org/x/sys/unix"
)

const (
	lookEvery = time.Minute             // the pause between two checks whether the mount is still in use
	answers   = 10 * time.Second        // how long to wait for the process to start, and for a daemon's answer
	connects  = 1500 * time.Millisecond // how long to wait for a connection to the daemon, which may not be running; see fusefs/past
	stopped   = time.Second             // how long to wait for an answer before checking whether the daemon is stopped
)

// printPast prints the directory that shows the past, and mounts it if needed.
func printPast(ctx context.Context, e *cli.Env, given string, versions bool) error {
	where := "."
	if versions && given != "" {
		where = given
	}
	t, c, err := e.Open(ctx, where)
	if err != nil {
		return err
	}
	defer c.Close()
	inside := ""
	switch {
	case versions:
		inside = filepath.Join("versions", string(t.Rel))
	case given == "":
	default:
		m, err := Moment(ctx, e, c, given)
		if err != nil {
			return err
		}
		// A second later, 10m means another moment, so print the version's number.
		inside = filepath.Join("at", "version", strconv.FormatUint(m.Seq, 10))
	}
	point, err := mounted(ctx, e, t.Root)
	if err != nil {
		return err
	}
	name := filepath.Join(point, inside)
	if versions {
		if _, err := os.Lstat(name); err != nil {
			return cli.Hintf("cachebro log", "the history has nothing about %s", cli.Quote(where))
		}
	}
	_, err = fmt.Fprintln(e.Stdout, name)
	return err
}

// mounted returns the mountpoint of the project's past, and mounts it if needed.
func mounted(ctx context.Context, e *cli.Env, root string) (string, error) {
	base, err := e.Paths().MakeRuntime(".")
	if err != nil {
		return "", err
	}
	point := filepath.Join(base, wire.Key(root)+".past")
	// Two simultaneous commands must start only one process.
	lock, err := os.OpenFile(point+".lock", os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", err
	}
	if at := past.Point(root); at != "" {
		if mounts.Answers(at, 3*time.Second) == nil {
			return at, nil
		}
		past.Leave(root) // the process of the earlier mount was killed
	}
	why, fix := FuseProblem()
	if why == "" && !HasHelper() {
		why, fix = "fusermount3 is missing; without it only root can mount", HelperFix()
	}
	if why != "" {
		return "", cli.Hintf(fix+"; without a mount: cachebro show FILE@10m, cachebro restore --at 10m", "the past cannot be mounted: %s", why)
	}
	if err := os.Mkdir(point, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return point, start(ctx, e, root, point)
}

// start starts the process that serves the past, and waits until it is ready.
func start(ctx context.Context, e *cli.Env, root, point string) error {
	exe := e.Exe
	if state, err := e.Paths().State(root); err == nil {
		exe, err = e.SelfOutside(root, state)
		if err != nil {
			return err
		}
	}
	cmd := exec.Command(exe, "past", "--root", root, "--point", point)
	cmd.Dir, cmd.Env = "/", e.Vars
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	firstLine := make(chan string, 1) // the process's line of output, or "" if it ended without one
	go func() {
		line, _ := bufio.NewReader(out).ReadString('\n')
		firstLine <- strings.TrimSpace(line)
	}()
	go func() { _ = cmd.Wait() }()
	ctx, cancel := context.WithTimeout(ctx, answers)
	defer cancel()
	select {
	case line := <-firstLine:
		if line == "ready" {
			return nil
		}
		return cli.Hintf("cachebro doctor", "the past cannot be mounted: %s", cmp.Or(line, "its process ended"))
	case <-ctx.Done():
		_ = cmd.Process.Kill()
		return fmt.Errorf("the past does not answer: %w", ctx.Err())
	}
}

// servePast serves the past of a project until it has not been used for limits.PastIdle.
func servePast(ctx context.Context, e *cli.Env, root, point string) error {
	failed := func(err error) error {
		fmt.Fprintln(e.Stdout, cli.OneLine(err.Error()))
		e.Flush()
		return err
	}
	state, err := e.Paths().State(root)
	if err != nil {
		return failed(err)
	}
	kept, err := wire.SamePlace(state)
	if err != nil {
		return failed(err)
	}
	c, err := e.ConnectAs(ctx, root, "past", wire.Timeouts{Connect: connects, Answer: answers})
	if err != nil {
		return failed(err)
	}
	defer c.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s, err := past.Mount(point, root, source{c, stop})
	if err != nil {
		return failed(err)
	}
	fmt.Fprintln(e.Stdout, "ready")
	e.Flush()
	detach()                         // a caller may wait for the end of this process's output
	go func() { s.Wait(); stop() }() // it was unmounted
	go func() {
		_ = wire.WaitGone(ctx, kept) // the history is gone
		stop()
	}()
	for {
		select {
		case <-ctx.Done():
			_ = fusefs.Detach(point)
		case <-time.After(lookEvery):
			if s.Idle() < limits.PastIdle || fusefs.Unmount(point) != nil {
				continue // a process is using the mount
			}
		}
		_ = os.Remove(point)
		return nil
	}
}

// detach closes the pipes that the parent process gave this process as output.
func detach() {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		slog.Warn("cannot open the null device", "err", err)
		return
	}
	defer null.Close()
	for _, fd := range []int{1, 2} {
		_ = unix.Dup3(int(null.Fd()), fd, 0)
	}
}

// source reads the past from the daemon. It calls stop, which ends this process, if the daemon has
// another version. The next cachebro at then starts a process of that version.
type source struct {
	c    *wire.Client
	stop func()
}

// errStopped ends requests while the daemon is stopped by SIGSTOP. A request to a daemon that is
// merely slow waits for the answer.
var errStopped = wire.Errorf(wire.ErrNoDaemon, "kill -CONT the store daemon", "the store daemon is stopped")

// patient returns a context for one request. If the daemon is stopped, the context is cancelled
// with errStopped.
func (s source) patient(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	later := time.AfterFunc(stopped, func() {
		for ctx.Err() == nil {
			if mounts.Stopped(s.c.Hello().PID) {
				cancel(errStopped)
			}
			loop.Pause(ctx, stopped)
		}
	})
	return ctx, func() { later.Stop(); cancel(nil) }
}

func (s source) explain(ctx context.Context, err error) error {
	if errors.Is(err, wire.ErrVersion) {
		s.stop()
	}
	if err != nil && errors.Is(context.Cause(ctx), errStopped) {
		return errStopped
	}
	return err
}

func (s source) Moment(ctx context.Context, words []string) (uint64, bool, error) {
	ctx, cancel := s.patient(ctx)
	defer cancel()
	m, err := resolve(ctx, s.c, words, time.Now())
	if errors.Is(err, errMore) {
		return 0, true, nil
	}
	return m.Seq, false, s.explain(ctx, err)
}

func (s source) Past(ctx context.Context, q wire.PastQuery) ([]wire.PastEntry, error) {
	ctx, cancel := s.patient(ctx)
	defer cancel()
	a, err := wire.Call[wire.PastAnswer](ctx, s.c, wire.MPast, q)
	return a.Entries, s.explain(ctx, err)
}

func (s source) Content(ctx context.Context, hash string) ([]byte, error) {
	ctx, cancel := s.patient(ctx)
	defer cancel()
	b, err := s.c.Call(ctx, wire.MPastRead, wire.PastRead{Hash: hash}, nil, nil)
	return b, s.explain(ctx, err)
}
