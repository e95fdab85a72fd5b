package wire

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const childDir = "CACHEBRO_WIRE_TEST_DIR"

// childMain is the daemon of these tests: the test binary itself, started by DialOrStart as `self
// daemon --root ROOT`.
func childMain() int {
	root := os.Args[3]
	if strings.HasSuffix(root, "broken") {
		fmt.Fprintln(os.Stderr, "the store is on fire")
		return 1
	}
	p := Paths{RuntimeDir: os.Getenv(childDir), StateHome: filepath.Join(os.Getenv(childDir), "state"), TempDir: os.Getenv(childDir)}
	state, err := p.MakeState(root)
	if err != nil {
		return 1
	}
	f, err := os.OpenFile(filepath.Join(state, "starts"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return 1
	}
	fmt.Fprintln(f, os.Getpid())
	f.Close()
	time.Sleep(50 * time.Millisecond) // as long as opening a store takes
	l, _, err := Listen(p, root, state)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	srv := NewServer(ServerOptions{
		Hello: func(Hello, Peer) (HelloAnswer, error) {
			return HelloAnswer{Version: "1.0", PID: os.Getpid(), Root: root}, nil
		},
		Handler: func(_ context.Context, r *Request) (any, []byte, error) {
			if r.Method == MShutdown {
				stop()
			}
			return Status{DaemonPID: os.Getpid()}, nil, nil
		},
	})
	go func() { _ = srv.Serve(l) }()
	<-ctx.Done()
	srv.Close()
	return 0
}

func TestDialOrStart(t *testing.T) {
	p, root := testPaths(t)
	t.Setenv(childDir, p.RuntimeDir)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const n = 8
	clients := make([]*Client, n)
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			c, err := DialOrStart(context.Background(), p, Hello{Version: "1.0", Root: root}, Timeouts{}, Start{Self: self})
			if err != nil {
				t.Error(err)
				return
			}
			clients[i] = c
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	pid := clients[0].Hello().PID
	for _, c := range clients {
		defer c.Close()
		if c.Hello().PID != pid {
			t.Errorf("two daemons: %d and %d", pid, c.Hello().PID)
		}
	}
	state, _ := p.State(root)
	starts, _ := os.ReadFile(filepath.Join(state, "starts"))
	if got := strings.Fields(string(starts)); len(got) != 1 {
		t.Errorf("started %d times: %v", len(got), got)
	}
	if sid, err := unix.Getsid(pid); err != nil || sid != pid {
		t.Errorf("the daemon is not in a session of its own: %d, %v", sid, err)
	}
	if cwd, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); cwd != "/" {
		t.Errorf("the daemon works in %s", cwd)
	}

	// After a kill, the next call starts another daemon.
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s, err := Call[Status](context.Background(), clients[0], MStatus, Empty{})
	if err != nil || s.DaemonPID == pid {
		t.Fatalf("after kill -9: %+v, %v", s, err)
	}

	// An older daemon is replaced, but only on request.
	_, err = DialOrStart(context.Background(), p, Hello{Version: "1.1", Root: root}, Timeouts{}, Start{Self: self})
	if !errors.Is(err, ErrVersion) {
		t.Fatalf("an older daemon: %v", err)
	}
	c, err := DialOrStart(context.Background(), p, Hello{Version: "1.1", Root: root}, Timeouts{}, Start{Self: self, Replace: true})
	if c == nil || c.Hello().PID == s.DaemonPID { // the test's daemon keeps its version
		t.Fatalf("not replaced: %v", err)
	}
	last := c.Hello().PID
	c.Close()
	if err := unix.Kill(last, unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for range 500 {
		if exited(last) || errors.Is(unix.Kill(last, 0), unix.ESRCH) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("daemon %d is left", last)
}

func TestStartFails(t *testing.T) {
	p, root := testPaths(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	_, err = DialOrStart(context.Background(), p, Hello{Root: root + "broken"}, Timeouts{}, Start{Self: self})
	if !errors.Is(err, ErrNoDaemon) || !strings.Contains(err.Error(), "the store is on fire") || Hint(err) == "" {
		t.Fatalf("got %v", err)
	}
	if d := time.Since(start); d > 4*time.Second {
		t.Errorf("noticed after %v", d)
	}
}

// A daemon that panicked used to be explained by the end of the trace.
func TestTailOfAPanic(t *testing.T) {
	log := filepath.Join(t.TempDir(), "daemon.log")
	trace := "panic: slice bounds out of range\n\ngoroutine 50 [running]:\n" + strings.Repeat("some.Function()\n\tfile.go:341 +0x9c\n", 200)
	if err := os.WriteFile(log, []byte("earlier\n"+trace), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := tail(log, int64(len("earlier\n"))); got != ": panic: slice bounds out of range" {
		t.Errorf("%q", got)
	}
}
