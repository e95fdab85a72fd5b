package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"cachebro/store/leaf/loop"
	"cachebro/store/leaf/procfs"

	"golang.org/x/sys/unix"
)

// Start describes how to start the daemon if it is not running.
type Start struct {
	Self string   // absolute path of the executable
	Args []string // nil: daemon --root ROOT
	// Replace makes a client replace an older daemon (by version number) instead of failing with
	// ErrVersion. A mount keeps working, because mountd attaches to the new daemon.
	Replace bool
	Within  time.Duration // time in which the daemon must answer; 0: 5 s
}

// DialOrStart is like Dial, but starts a daemon if none runs. The Client also starts one later
// whenever the daemon has exited. Concurrent clients start only one daemon.
func DialOrStart(ctx context.Context, p Paths, h Hello, t Timeouts, s Start) (*Client, error) {
	if !filepath.IsAbs(s.Self) {
		return nil, Errorf(ErrBadRequest, "", "executable %q is not an absolute path", s.Self)
	}
	if s.Within <= 0 {
		s.Within = 5 * time.Second
	}
	if s.Args == nil {
		s.Args = []string{"daemon", "--root", h.Root}
	}
	c := newClient(h, t)
	st := &starter{c: c, p: p, s: s}
	c.open = st.open
	err := c.first(ctx)
	if errors.Is(err, ErrVersion) && s.Replace && Older(c.Hello().Version, h.Version) {
		if err := st.replace(ctx); err != nil {
			return nil, err
		}
		err = c.first(ctx)
	}
	return c, err
}

type starter struct {
	c *Client
	p Paths
	s Start
}

func (st *starter) open(ctx context.Context) (*clientConn, error) {
	cc, err := st.c.connect(ctx, st.p)
	if !errors.Is(err, ErrNoDaemon) {
		return cc, err
	}
	return st.start(ctx)
}

// start starts the daemon under a lock, so that only one of several clients starts it.
func (st *starter) start(ctx context.Context) (*clientConn, error) {
	root := st.c.hello.Root
	state, err := st.p.MakeState(root)
	if err != nil {
		return nil, err
	}
	if st.c.hello.Client != NetClient {
		st.askRecorder()
	}
	ctx, cancel := context.WithTimeout(ctx, st.s.Within)
	defer cancel()
	unlock, err := lockStart(ctx, filepath.Join(state, "start.lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	if cc, err := st.c.connect(ctx, st.p); !errors.Is(err, ErrNoDaemon) {
		return cc, err
	}
	logFile := LogFile(state)
	from := size(logFile)
	pid, err := spawn(st.s.Self, st.s.Args, logFile)
	if err != nil {
		return nil, Errorf(ErrNoDaemon, "", "start the store daemon: %v", err)
	}
	for wait := 2 * time.Millisecond; ; wait = min(2*wait, 40*time.Millisecond) {
		if !loop.Pause(ctx, wait) {
			return nil, Errorf(ErrNoDaemon, "look at "+logFile, "the store daemon (pid %d) does not answer%s", pid, tail(logFile, from))
		}
		cc, err := st.c.connect(ctx, st.p)
		if err == nil {
			return cc, nil
		}
		if !errors.Is(err, ErrNoDaemon) && !errors.Is(err, ErrTimeout) {
			return nil, err
		}
		if exited(pid) {
			return nil, Errorf(ErrNoDaemon, "look at "+logFile, "the store daemon could not start%s", tail(logFile, from))
		}
	}
}

// NetClient is the name with which the recorder of "cachebro run" connects to daemons.
const NetClient = "net"

// NetStart is the first byte of a packet that asks the recorder to start a daemon. After it, the
// packet contains the version of the client, a NUL and the root. The recorder answers with the same
// byte when it has tried.
const NetStart = 'd'

// askRecorder lets the recorder of "cachebro run" start the daemon, if a recorder is running. A
// daemon that a watched command starts would inherit the command's system call filter. Then the
// recorder would wait for the end of the daemon, and if the recorder and run were killed, the kernel
// would refuse what the daemon wants to write. If this process is watched, a recorder is running,
// because MakeState makes a call that the filter reports.
func (st *starter) askRecorder() {
	socket, err := st.p.NetSocket()
	if err != nil {
		return
	}
	conn, err := net.Dial("unixpacket", socket)
	if err != nil {
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(st.s.Within))
	if _, err := conn.Write([]byte(string(NetStart) + st.c.hello.Version + "\x00" + st.c.hello.Root)); err == nil {
		_, _ = conn.Read(make([]byte, 1))
	}
}

// lockStart takes an flock. It polls, so that it can return when the context ends.
func lockStart(ctx context.Context, path string) (func(), error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, stateError(filepath.Dir(path), err)
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if !loop.Pause(ctx, 5*time.Millisecond) {
			f.Close()
			return nil, Errorf(ErrTimeout, "cachebro status", "another process has been starting the store daemon for too long")
		}
	}
}

// spawn starts a process that outlives this one. The process gets its own session and working
// directory /.
func spawn(self string, args []string, logFile string) (int, error) {
	out, err := os.OpenFile(logFile, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return 0, err
	}
	defer out.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	p, err := os.StartProcess(self, append([]string{self}, args...), &os.ProcAttr{
		Dir:   "/",
		Files: []*os.File{null, out, out},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, err
	}
	// If the daemon exits before this process, waiting prevents a zombie.
	go func() { _, _ = p.Wait() }()
	return p.Pid, nil
}

// exited reports whether our child process has ended.
func exited(pid int) bool {
	got, err := unix.Wait4(pid, nil, unix.WNOHANG, nil)
	return got == pid || errors.Is(err, unix.ECHILD)
}

func size(path string) int64 {
	fi, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return fi.Size()
}

// tail returns the end of the log since offset from, at most 2 KiB, as ": text". It leaves out the trace
// of a panic.
func tail(path string, from int64) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	b, _ := io.ReadAll(io.NewSectionReader(f, from, 1<<20))
	text, _, _ := strings.Cut(string(b), "\n\ngoroutine ")
	text = strings.TrimSpace(text[max(0, len(text)-2048):])
	if text != "" {
		return ": " + text
	}
	return ""
}

// replace asks the older daemon to exit and waits until it has.
func (st *starter) replace(ctx context.Context) error {
	old := st.c.Hello().PID
	if _, err := st.c.Call(ctx, MShutdown, Empty{}, nil, nil); err != nil && !errors.Is(err, ErrNoDaemon) {
		return fmt.Errorf("replace the older store daemon: %w", err)
	}
	st.c.dropIdle()
	for deadline := time.Now().Add(10 * time.Second); ; {
		if err := unix.Kill(old, 0); errors.Is(err, unix.ESRCH) || zombie(old) {
			return nil
		}
		if time.Now().After(deadline) {
			return Errorf(ErrTimeout, fmt.Sprintf("kill %d", old), "the older store daemon (pid %d) does not end", old)
		}
		if !loop.Pause(ctx, 10*time.Millisecond) {
			return ctxError(ctx, "replace the older store daemon")
		}
	}
}

// zombie reports whether a process has ended and its parent has not waited for it.
func zombie(pid int) bool {
	st, err := procfs.ReadStat(pid)
	return err == nil && st.State == 'Z'
}

// Older compares version numbers like 0.3.1 part by part. A part that is not a number is never
// older. Otherwise two development builds would replace each other in turn.
func Older(a, b string) bool {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := 0; i < len(as) && i < len(bs); i++ {
		x, err1 := strconv.Atoi(as[i])
		y, err2 := strconv.Atoi(bs[i])
		if err1 != nil || err2 != nil {
			return false
		}
		if x != y {
			return x < y
		}
	}
	return len(as) < len(bs)
}
