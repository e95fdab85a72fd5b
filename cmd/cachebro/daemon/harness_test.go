package daemon

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"cachebro/cmd/cachebro/daemon/source"
	"cachebro/store"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/spool"
	"cachebro/store/wire"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "daemon" {
		os.Exit(childMain())
	}
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/golang/glog.(*fileSink).flushDaemon"),
		// bleve starts its analysis workers when it is imported.
		goleak.IgnoreTopFunction("github.com/blevesearch/bleve_index_api.AnalysisWorker"))
}

// project is a directory with its own state directory and, once it is started, its own daemon.
type project struct {
	t     testing.TB
	root  string
	paths wire.Paths
	state string
	opt   Options
	stop  context.CancelFunc
	ended chan error
	spool *spool.Writer
	node  uint64
}

func newProject(t testing.TB) *project {
	// t.TempDir is not used because the path of a socket must be short.
	base, err := os.MkdirTemp("", "cb")
	if err == nil {
		base, err = filepath.EvalSymlinks(base)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(base); err != nil {
			t.Error(err)
		}
	})
	p := &project{t: t, root: filepath.Join(base, "project"), paths: wire.Paths{RuntimeDir: base, StateHome: filepath.Join(base, "state"), TempDir: base}}
	if err := os.Mkdir(p.root, 0o755); err != nil {
		t.Fatal(err)
	}
	if p.state, err = p.paths.MakeState(p.root); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if b, err := os.ReadFile(wire.LogFile(p.state)); err == nil && t.Failed() {
			t.Logf("daemon.log:\n%s", b[max(0, len(b)-8000):])
		}
	})
	p.opt = Options{Root: p.root, Paths: p.paths, Version: "1.0", IdleExit: -1, MemoryLimit: -1, Store: store.Options{Ballast: -1, MinFree: 64 << 20}}
	return p
}

// start runs a daemon in this process.
func (p *project) start() {
	p.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready := make(chan struct{})
	o := p.opt
	o.Ready = func() { close(ready) }
	if testing.Verbose() && o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	p.stop, p.ended = cancel, make(chan error, 1)
	go func() { p.ended <- Run(ctx, o) }()
	select {
	case <-ready:
	case err := <-p.ended:
		p.t.Fatalf("start: %v", err)
	}
	p.t.Cleanup(p.end)
}

func (p *project) end() {
	if p.stop == nil {
		return
	}
	p.stop()
	p.stop = nil
	if err := <-p.ended; err != nil {
		p.t.Errorf("the daemon ended with %v", err)
	}
}

func (p *project) dial(client string) *wire.Client {
	p.t.Helper()
	c, err := wire.Dial(context.Background(), p.paths, wire.Hello{Version: "1.0", Client: client, Root: p.root}, wire.Timeouts{})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { c.Close() })
	return c
}

func (p *project) write(name, text string) {
	p.t.Helper()
	name = filepath.Join(p.root, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// writer opens the spool as mountd does.
func (p *project) writer() *spool.Writer {
	p.t.Helper()
	if p.spool == nil {
		w, err := spool.OpenWriter(wire.SpoolDir(p.state), spool.Options{})
		if err != nil {
			p.t.Fatal(err)
		}
		p.spool = w
		p.t.Cleanup(func() { w.Close() })
		p.append(&spool.Record{Kind: spool.KindMount, Time: now(), Source: p.root, Mountpoint: p.root, Version: "1.0"})
	}
	return p.spool
}

func (p *project) append(rs ...*spool.Record) uint64 {
	p.t.Helper()
	seq, err := p.writer().Append(rs...)
	if err != nil {
		p.t.Fatal(err)
	}
	return seq
}

func now() int64 { return time.Now().UnixNano() }

// closed spools a file's content as capture does after a close.
func (p *project) closed(op event.Op, name string, text []byte, edit func(*spool.Record)) {
	p.t.Helper()
	c, err := p.writer().NewContent()
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := c.Write(text); err != nil {
		p.t.Fatal(err)
	}
	p.node++
	r := &spool.Record{Kind: spool.KindVersion, Time: now(), Op: op, Path: name, Node: p.node, HasContent: true,
		Stat: event.Stat{Ino: p.node, Mode: syscall.S_IFREG | 0o644, Nlink: 1, Size: int64(len(text)), Mtime: now(), Ctime: now()}}
	if edit != nil {
		edit(r)
	}
	if _, err := p.writer().Append(r, c.Record(0)); err != nil {
		p.t.Fatal(err)
	}
	c.Keep()
}

// through writes a file in the source and spools the record that the overlay would have made.
func (p *project) through(op event.Op, name, text string, edit func(*spool.Record)) {
	p.t.Helper()
	p.write(name, text)
	st := p.statOf(name)
	p.closed(op, name, []byte(text), func(r *spool.Record) {
		r.Stat = st
		if edit != nil {
			edit(r)
		}
	})
}

// attach connects as mountd. From then on the project counts as mounted.
func (p *project) attach() (*wire.Client, wire.HeartbeatAnswer) {
	p.t.Helper()
	dir, err := os.Open(p.root)
	if err != nil {
		p.t.Fatal(err)
	}
	defer dir.Close()
	c := p.dial("mountd")
	a, err := c.Attach(context.Background(), wire.Attach{PID: os.Getpid(), Mountpoint: p.root, Spool: wire.SpoolDir(p.state)}, dir)
	if err != nil {
		p.t.Fatal(err)
	}
	return c, a
}

func ask[R any](p *project, c *wire.Client, method string, q any) R {
	p.t.Helper()
	r, err := wire.Call[R](context.Background(), c, method, q)
	if err != nil {
		p.t.Fatalf("%s: %v (hint: %s)", method, err, wire.Hint(err))
	}
	return r
}

func (p *project) log(c *wire.Client, q wire.LogQuery) []wire.Version {
	p.t.Helper()
	return ask[wire.LogAnswer](p, c, wire.MLog, q).Versions
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 30 s", what)
		}
	}
}

// statOf returns a file's attributes as capture records them.
func (p *project) statOf(name string) event.Stat {
	p.t.Helper()
	f, err := os.Open(filepath.Join(p.root, name))
	if err != nil {
		p.t.Fatal(err)
	}
	defer f.Close()
	st, err := source.StatOf(f)
	if err != nil {
		p.t.Fatal(err)
	}
	return event.Stat(st)
}
