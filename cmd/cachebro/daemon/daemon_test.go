package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cachebro/store"
	"cachebro/store/content"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/spool"
	"cachebro/store/wire"
)

// TestSpoolToLogAndShow follows a change all the way: mountd spools it, the daemon ingests it, and
// a client asks for it. The test need not wait, because log waits for records that were spooled
// before the request.
func TestSpoolToLogAndShow(t *testing.T) {
	p := newProject(t)
	p.start()
	p.attach()
	c := p.dial("cli")
	p.append(&spool.Record{Kind: spool.KindProcess, Time: now(), PID: 811, Start: 5, UID: 1000, Comm: "sed", Args: "sed -i s/a/b/ a.txt"})
	by := func(r *spool.Record) { r.PID, r.Start = 811, 5 }
	name := "dir\n\xff/a b.txt"
	for i := range 3 {
		p.closed(event.OpWrite, name, []byte(fmt.Sprintf("content %d\x00\xff\n", i)), by)
	}
	p.append(&spool.Record{Kind: spool.KindVersion, Time: now(), Op: event.OpRename, Path: name, Path2: "moved", PID: 811, Start: 5,
		Stat: event.Stat{Mode: syscall.S_IFREG | 0o600, Nlink: 1, Size: 12}})
	vs := p.log(c, wire.LogQuery{Path: []byte("moved"), Oldest: true})
	if len(vs) != 4 || vs[3].Op != "rename" || string(vs[3].From) != name || vs[0].Number != 1 || vs[3].Number != 4 {
		t.Fatalf("log: %+v", vs)
	}
	for _, v := range vs {
		if v.Actor.Comm != "sed" || v.Actor.PID != 811 || v.Actor.UID != 1000 || v.Actor.Args == "" {
			t.Errorf("actor %+v", v.Actor)
		}
	}
	for i := range 3 {
		var v wire.Version
		body, err := c.Call(context.Background(), wire.MShow, wire.ShowQuery{Path: []byte("moved"), Number: i + 1}, nil, &v)
		if want := fmt.Sprintf("content %d\x00\xff\n", i); err != nil || string(body) != want {
			t.Errorf("@%d: %q, %v", i+1, body, err)
		}
		if body, err = c.Call(context.Background(), wire.MShow, wire.ShowQuery{Seq: vs[i].Seq}, nil, nil); err != nil || !bytes.HasPrefix(body, []byte("content ")) {
			t.Errorf("#%d: %q, %v", vs[i].Seq, body, err)
		}
	}
	if _, err := c.Call(context.Background(), wire.MShow, wire.ShowQuery{Path: []byte("moved"), Number: 9}, nil, nil); !errors.Is(err, wire.ErrNotFound) || wire.Hint(err) == "" {
		t.Errorf("@9: %v", err)
	}
	if st := ask[wire.Status](p, c, wire.MStatus, wire.Empty{}); !st.Mounted || st.MountdPID != os.Getpid() || !st.Store.Healthy || st.Store.Lag != 0 {
		t.Errorf("status: %+v", st)
	}
}

func TestSecondDaemonFailsAtOnce(t *testing.T) {
	p := newProject(t)
	p.start()
	start := time.Now()
	err := Run(context.Background(), p.opt)
	if !errors.Is(err, wire.ErrLocked) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) || wire.Hint(err) == "" {
		t.Fatalf("second daemon: %v", err)
	}
	if d := time.Since(start); d > time.Second {
		t.Errorf("it took %v to notice", d)
	}
}

func TestBaselineAndPathsThatVanished(t *testing.T) {
	p := newProject(t)
	for name, text := range map[string]string{
		"a.go": "package a\n", "sub/b.go": "package b\n", "empty": "", ".gitignore": "*.log\nnode_modules/\n",
		"x.log": "ignored", "node_modules/m/index.js": "excluded", "package.json": "{}", ".git/HEAD": "ref: refs/heads/topic/x\n",
	} {
		p.write(name, text)
	}
	if err := os.Symlink("a.go", filepath.Join(p.root, "link")); err != nil {
		t.Fatal(err)
	}
	p.start()
	m, _ := p.attach()
	c := p.dial("cli")
	done := func() bool { return ask[wire.Status](p, c, wire.MStatus, wire.Empty{}).Baseline.Done }
	eventually(t, "baseline", done)
	if a := ask[wire.HeartbeatAnswer](p, m, wire.MHeartbeat, wire.Heartbeat{}); a.BaselineStart.IsZero() || time.Since(a.BaselineStart) > time.Minute {
		t.Errorf("mountd did not receive the baseline: %+v", a)
	}
	var names []string
	for _, v := range p.log(c, wire.LogQuery{Baselines: true, Oldest: true}) {
		if v.Op != "baseline" {
			t.Errorf("%s of %s", v.Op, v.Path)
		}
		names = append(names, string(v.Path))
	}
	got := strings.Join(names, " ")
	for _, want := range []string{"a.go", "sub/b.go", "empty", ".gitignore", "link", "package.json"} {
		if !strings.Contains(" "+got+" ", " "+want+" ") {
			t.Errorf("%s has no baseline: %s", want, got)
		}
	}
	for _, not := range []string{"x.log", "index.js", ".git/"} {
		if strings.Contains(got, not) {
			t.Errorf("%s has a baseline: %s", not, got)
		}
	}
	if ws := ask[wire.WorkingSet](p, c, wire.MWorkingSet, wire.WorkingSetQuery{}); ws.Branch != "topic/x" {
		t.Errorf("branch %q", ws.Branch)
	}
	before := ask[wire.Status](p, c, wire.MStatus, wire.Empty{}).Store.Versions

	// At the next mount, unchanged files get no new version. Files that changed or disappeared in
	// the meantime get one.
	ask[wire.Empty](p, m, wire.MDetach, wire.Detach{})
	p.end()
	if err := os.Remove(filepath.Join(p.root, "sub/b.go")); err != nil {
		t.Fatal(err)
	}
	p.write("a.go", "package a // changed\n")
	p.start()
	p.attach()
	c = p.dial("cli")
	eventually(t, "second baseline", func() bool { return ask[wire.Status](p, c, wire.MStatus, wire.Empty{}).Baseline.Done })
	vs := p.log(c, wire.LogQuery{Oldest: true})
	if len(vs) != 2 || vs[0].Op != "outside" || string(vs[0].Path) != "a.go" || vs[1].Op != "unlink" || string(vs[1].Path) != "sub/b.go" || vs[1].Actor.Comm != "outside" {
		t.Errorf("after the second baseline: %+v", vs)
	}
	if after := ask[wire.Status](p, c, wire.MStatus, wire.Empty{}).Store.Versions; after != before+2 {
		t.Errorf("%d versions, then %d", before, after)
	}
}

// Wherever the daemon is killed, the log has each spooled record once, in order, with its content.
func TestKillWhileIngesting(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	p := newProject(t)
	t.Setenv(childDir, filepath.Dir(p.root))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	connect := func() *wire.Client {
		c, err := wire.DialOrStart(context.Background(), p.paths, wire.Hello{Version: "1.0", Client: "cli", Root: p.root}, wire.Timeouts{}, wire.Start{Self: self})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	const rounds, each = 5, 150
	for round := range rounds {
		c := connect()
		pid := c.Hello().PID
		var wg sync.WaitGroup
		wg.Go(func() {
			time.Sleep(time.Duration(10+round*15) * time.Millisecond)
			_ = syscall.Kill(pid, syscall.SIGKILL)
		})
		for i := range each {
			n := round*each + i
			p.closed(event.OpWrite, fmt.Sprintf("f%d", n%7), bytes.Repeat([]byte(fmt.Sprintf("%d\n", n)), 200), nil)
		}
		wg.Wait()
		c.Close()
	}
	c := connect()
	defer c.Close()
	eventually(t, "everything ingested", func() bool { return ask[wire.Status](p, c, wire.MStatus, wire.Empty{}).Store.Lag == 0 })
	vs := p.log(c, wire.LogQuery{Oldest: true, Limit: rounds*each + 10})
	if len(vs) != rounds*each {
		t.Errorf("%d versions of %d closes", len(vs), rounds*each)
	}
	for n, v := range vs {
		body, err := c.Call(context.Background(), wire.MShow, wire.ShowQuery{Seq: v.Seq}, nil, nil)
		if err != nil || !bytes.Equal(body, bytes.Repeat([]byte(fmt.Sprintf("%d\n", n)), 200)) {
			t.Fatalf("version %d of %s: %.20q, %v", n, v.Path, body, err)
		}
	}
	if st := ask[wire.Status](p, c, wire.MStatus, wire.Empty{}); st.GapCount != 0 {
		t.Errorf("%d gaps: %+v", st.GapCount, st.Gaps)
	}
	ask[wire.Empty](p, c, wire.MShutdown, wire.Empty{})
	eventually(t, "shutdown", func() bool { // the lock is released last
		l, _, err := lockState(p.state, func() bool { return true })
		if err == nil {
			l.Close()
		}
		return err == nil
	})
}

const childDir = "CACHEBRO_DAEMON_TEST_DIR"

// childStuck is the environment variable that tells the child where to hang: "open" (before it
// answers requests) or "work" (in a request).
const childStuck = "CACHEBRO_DAEMON_TEST_STUCK"

// childMain runs a daemon in a child process, for the tests that kill one.
func childMain() int {
	base := os.Getenv(childDir)
	o := Options{Root: os.Args[3], Version: "1.0", Paths: wire.Paths{RuntimeDir: base, StateHome: filepath.Join(base, "state"), TempDir: base},
		Store: store.Options{Ballast: -1, MinFree: 64 << 20}, IdleExit: 20 * time.Second}
	stuck, alone := os.LookupEnv(childStuck)
	if alone {
		o.IdleExit = -1 // the test ends it
	}
	opened := false
	o.Ready = func() { opened = true }
	o.Store.Siblings = func() []content.Sibling {
		if stuck == "open" || stuck == "work" && opened {
			fmt.Fprintln(os.Stderr, "stuck")
			select {}
		}
		return nil
	}
	if err := Run(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// TestStartWaitsForTheLast: a daemon that ends closes its socket before its store. A client that
// finds no socket therefore starts the next daemon while the lock is still held.
func TestStartWaitsForTheLast(t *testing.T) {
	p := newProject(t)
	if err := os.MkdirAll(p.state, 0o700); err != nil {
		t.Fatal(err)
	}
	lock, _, err := lockState(p.state, func() bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(300*time.Millisecond, func() { lock.Close() })
	p.start()
	p.dial("cli").Close()
}

func TestIdleDaemonEnds(t *testing.T) {
	p := newProject(t)
	p.opt.IdleExit = 100 * time.Millisecond
	p.start()
	select {
	case err := <-p.ended:
		p.stop = nil
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it stays")
	}
}
