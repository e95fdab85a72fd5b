package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == "daemon" {
		os.Exit(childMain())
	}
	goleak.VerifyTestMain(m)
}

// daemon is a server on a socket of its own. The test supplies the handler.
type daemon struct {
	paths Paths
	root  string
	srv   *Server
	done  chan error
}

func serveTest(t testing.TB, paths Paths, root, version string, h Handler) *daemon {
	t.Helper()
	state, err := paths.MakeState(root)
	if err != nil {
		t.Fatal(err)
	}
	l, _, err := Listen(paths, root, state)
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{paths: paths, root: root, done: make(chan error, 1)}
	d.srv = NewServer(ServerOptions{Handler: h, WriteTimeout: time.Second, Hello: func(h Hello, p Peer) (HelloAnswer, error) {
		if p.PID != os.Getpid() || h.PID != os.Getpid() {
			return HelloAnswer{}, fmt.Errorf("peer %d, hello %d, want %d", p.PID, h.PID, os.Getpid())
		}
		return HelloAnswer{Version: version, PID: os.Getpid(), Root: root, State: state}, nil
	}})
	go func() { d.done <- d.srv.Serve(l) }()
	t.Cleanup(d.stop)
	return d
}

func (d *daemon) stop() {
	d.srv.Close()
	if d.done != nil {
		<-d.done
		d.done = nil
	}
}

func testPaths(t testing.TB) (Paths, string) {
	// The path of t.TempDir contains the test's name, and a socket's path must be short.
	dir, err := os.MkdirTemp("", "w")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return Paths{RuntimeDir: dir, StateHome: filepath.Join(dir, "state"), TempDir: dir}, filepath.Join(dir, "project")
}

func dialTest(t testing.TB, p Paths, root string) *Client {
	t.Helper()
	c, err := Dial(context.Background(), p, Hello{Version: "1", Client: "cli", Root: root}, Timeouts{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func echo(_ context.Context, r *Request) (any, []byte, error) {
	var q ShowQuery
	if err := r.Decode(&q); err != nil {
		return nil, nil, err
	}
	return Version{Path: q.Path, Seq: q.Seq}, r.Body, nil
}

func TestCallCarriesHeaderAndBody(t *testing.T) {
	p, root := testPaths(t)
	serveTest(t, p, root, "1", echo)
	c := dialTest(t, p, root)
	for _, n := range []int{0, 1, 4095, 64 << 10, 1<<20 + 1, 40 << 20} {
		body := bytes.Repeat([]byte{0, 0xff, '\n', 'x'}, n/4+1)[:n]
		var v Version
		out, err := c.Call(context.Background(), MShow, ShowQuery{Path: []byte("a\n\xff"), Seq: uint64(n)}, body, &v)
		if err != nil || !bytes.Equal(out, body) || v.Seq != uint64(n) || string(v.Path) != "a\n\xff" {
			t.Fatalf("%d bytes: got %d bytes, %+v, %v", n, len(out), v, err)
		}
	}
}

func TestErrorsCrossTheWire(t *testing.T) {
	p, root := testPaths(t)
	gives := make(chan error, 1)
	serveTest(t, p, root, "1", func(context.Context, *Request) (any, []byte, error) { return nil, nil, <-gives })
	c := dialTest(t, p, root)
	for _, s := range []*Error{ErrNotFound, ErrOutside, ErrBinary, ErrIsDir, ErrDamaged, ErrNoSpace, ErrLocked, ErrPruned} {
		gives <- fmt.Errorf("show src/a.go: %w", Errorf(s, "cachebro log src/a.go", "no version %d", 9))
		_, err := c.Call(context.Background(), MShow, Empty{}, nil, nil)
		if !errors.Is(err, s) || Hint(err) != "cachebro log src/a.go" || err.Error() != "show src/a.go: no version 9" {
			t.Errorf("%s came back as %v, hint %q", s.Code, err, Hint(err))
		}
	}
	gives <- errors.New("something odd")
	if _, err := c.Call(context.Background(), MShow, nil, nil, nil); !errors.Is(err, ErrInternal) || err.Error() != "something odd" {
		t.Errorf("unknown error came back as %v", err)
	}
}

// A handler must not keep running after its client gave up.
func TestCancelReachesTheHandler(t *testing.T) {
	p, root := testPaths(t)
	ended := make(chan error, 2)
	serveTest(t, p, root, "1", func(ctx context.Context, r *Request) (any, []byte, error) {
		if r.Method == MStatus {
			return Status{Root: root}, nil, nil
		}
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, nil, ctx.Err()
	})
	c := dialTest(t, p, root)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	if _, err := c.Call(ctx, MDiff, Empty{}, nil, nil); !errors.Is(err, ErrTimeout) {
		t.Fatalf("got %v, want ErrTimeout", err)
	}
	ctx2, cancel2 := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel2)
	if _, err := c.Call(ctx2, MDiff, Empty{}, nil, nil); !errors.Is(err, ErrCanceled) {
		t.Fatalf("got %v, want ErrCanceled", err)
	}
	for range 2 {
		select {
		case <-ended:
		case <-time.After(5 * time.Second):
			t.Fatal("handler still works for a client that is gone")
		}
	}
	if s, err := Call[Status](context.Background(), c, MStatus, Empty{}); err != nil || s.Root != root {
		t.Fatalf("the client is of no more use: %+v, %v", s, err)
	}
}

func TestReconnectsOnceAfterRestart(t *testing.T) {
	p, root := testPaths(t)
	d := serveTest(t, p, root, "1", echo)
	c := dialTest(t, p, root)
	if _, err := c.Call(context.Background(), MShow, Empty{}, nil, nil); err != nil {
		t.Fatal(err)
	}
	d.stop()
	if _, err := c.Call(context.Background(), MShow, Empty{}, nil, nil); !errors.Is(err, ErrNoDaemon) {
		t.Fatalf("without a daemon: %v", err)
	}
	serveTest(t, p, root, "1", echo)
	if _, err := c.Call(context.Background(), MShow, Empty{}, nil, nil); err != nil {
		t.Fatalf("after the restart: %v", err)
	}
}

func TestOtherVersion(t *testing.T) {
	p, root := testPaths(t)
	serveTest(t, p, root, "2", func(context.Context, *Request) (any, []byte, error) { return Status{Version: "2"}, nil, nil })
	c, err := Dial(context.Background(), p, Hello{Version: "1", Root: root}, Timeouts{})
	if !errors.Is(err, ErrVersion) || c == nil {
		t.Fatalf("got %v, want ErrVersion with a client", err)
	}
	defer c.Close()
	if s, err := Call[Status](context.Background(), c, MStatus, Empty{}); err != nil || s.Version != "2" {
		t.Fatalf("status: %+v, %v", s, err)
	}
	if _, err := c.Call(context.Background(), MLog, LogQuery{}, nil, nil); !errors.Is(err, ErrVersion) {
		t.Fatalf("log: %v, want ErrVersion", err)
	}
	for _, x := range []struct {
		a, b string
		want bool
	}{{"0.1.0", "0.2.0", true}, {"0.2.0", "0.1.9", false}, {"0.9", "0.10", true}, {"1", "1", false}, {"dev", "1.0", false}, {"1.0", "1.0.1", true}} {
		if got := Older(x.a, x.b); got != x.want {
			t.Errorf("older(%s, %s) = %v", x.a, x.b, got)
		}
	}
}

func TestAttachPassesADescriptor(t *testing.T) {
	p, root := testPaths(t)
	got := make(chan string, 1)
	var stray atomic.Int64
	serveTest(t, p, root, "1", func(_ context.Context, r *Request) (any, []byte, error) {
		if r.Method != MAttach {
			stray.Add(int64(len(r.Files)))
			return nil, nil, nil
		}
		if len(r.Files) != 1 {
			return nil, nil, fmt.Errorf("%d descriptors", len(r.Files))
		}
		defer r.Files[0].Close()
		b, err := io.ReadAll(r.Files[0])
		got <- string(b)
		return HeartbeatAnswer{Healthy: true}, nil, err
	})
	c := dialTest(t, p, root)
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, []byte("through the socket"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	a, err := c.Attach(context.Background(), Attach{PID: 1}, f)
	if err != nil || !a.Healthy || <-got != "through the socket" {
		t.Fatalf("attach: %+v, %v", a, err)
	}
	if _, err := c.call(context.Background(), MStatus, nil, nil, f, nil); err != nil || stray.Load() != 0 {
		t.Fatalf("a descriptor beside another method: %d came through, %v", stray.Load(), err)
	}
}

// A daemon that was stopped by a signal still has a backlog: connects succeed, but no answer
// comes.
func TestHungDaemon(t *testing.T) {
	p, root := testPaths(t)
	state, _ := p.MakeState(root)
	l, _, err := Listen(p, root, state)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	start := time.Now()
	_, err = Dial(context.Background(), p, Hello{Root: root}, HookTimeouts)
	if d := time.Since(start); !errors.Is(err, ErrTimeout) || d > 2*time.Second {
		t.Fatalf("after %v: %v", d, err)
	}
}

// A client that does not read its answer delays no other client.
func TestSlowClient(t *testing.T) {
	p, root := testPaths(t)
	big := make([]byte, 30<<20)
	serveTest(t, p, root, "1", func(_ context.Context, r *Request) (any, []byte, error) {
		if r.Method == MShow {
			return Empty{}, big, nil
		}
		return Status{}, nil, nil
	})
	slow, err := connect(context.Background(), p, root)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	st := newStream(slow)
	if err := st.writeFrame(requestHeader{1, MHello, Hello{Version: "1", PID: os.Getpid(), Root: root}}, nil, nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := st.readFrame(); err != nil {
		t.Fatal(err)
	}
	if err := st.writeFrame(requestHeader{2, MShow, nil}, nil, nil); err != nil {
		t.Fatal(err)
	}
	c := dialTest(t, p, root)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for range 20 {
				if _, err := c.Call(context.Background(), MStatus, Empty{}, nil, nil); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestBadFrames(t *testing.T) {
	p, root := testPaths(t)
	d := serveTest(t, p, root, "1", echo)
	for _, raw := range []string{
		"\xff\xff\xff\xff\x00\x00\x00\x00", // a header of 4 GiB
		"\x02\x00\x00\x00\x00\x00\x00\x00{]",
		"\x40\x00\x00\x00\x00\x00\x00\x00{\"id\":1", // and the connection ends
		"GET / HTTP/1.1\r\n\r\n",
		`` + "\x1a\x00\x00\x00\x00\x00\x00\x00" + `{"id":1,"method":"status"}`, // no hello
	} {
		c, err := connect(context.Background(), p, root)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write([]byte(raw))
		_ = c.CloseWrite()
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%q: the server keeps the connection", raw)
		}
		c.Close()
	}
	c := dialTest(t, p, root)
	if _, err := c.Call(context.Background(), MShow, ShowQuery{}, nil, nil); err != nil {
		t.Fatalf("after the bad ones: %v", err)
	}
	d.srv.mu.Lock()
	n := len(d.srv.conns)
	d.srv.mu.Unlock()
	if n > 2 {
		t.Errorf("%d connections are left", n)
	}
}

func FuzzServer(f *testing.F) {
	f.Add([]byte("\x1a\x00\x00\x00\x00\x00\x00\x00{\"id\":1,\"method\":\"status\"}"))
	f.Add([]byte("\x02\x00\x00\x00\x05\x00\x00\x00{}hello"))
	srv := NewServer(ServerOptions{Handler: echo, Hello: func(h Hello, _ Peer) (HelloAnswer, error) { return HelloAnswer{}, nil }})
	f.Cleanup(srv.Close)
	f.Fuzz(func(t *testing.T, in []byte) {
		fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		var cs [2]*net.UnixConn
		for i, fd := range fds {
			file := os.NewFile(uintptr(fd), "pair")
			c, err := net.FileConn(file)
			file.Close()
			if err != nil {
				t.Fatal(err)
			}
			cs[i] = c.(*net.UnixConn)
		}
		srv.start(cs[0])
		_, _ = cs[1].Write(in)
		_ = cs[1].CloseWrite()
		_ = cs[1].SetReadDeadline(time.Now().Add(5 * time.Second))
		if _, err := io.Copy(io.Discard, cs[1]); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("the server hangs")
		}
		cs[1].Close()
	})
}

func BenchmarkRoundTrip(b *testing.B) {
	p, root := testPaths(b)
	serveTest(b, p, root, "1", echo)
	c := dialTest(b, p, root)
	body := make([]byte, 2000)
	for b.Loop() {
		var v Version
		if _, err := c.Call(context.Background(), MShow, ShowQuery{Path: []byte("src/main.go"), Seq: 7}, body, &v); err != nil {
			b.Fatal(err)
		}
	}
}
