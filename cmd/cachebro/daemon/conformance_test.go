package daemon

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"cachebro/cmd/cachebro/daemon/source"
	"cachebro/scripts/testkit/conformance"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/spool"
	"cachebro/store/onwire"
	"cachebro/store/readers"
	"cachebro/store/wire"
)

// subject is a project behind a socket. If it is mounted, its writes are spooled as the overlay
// would spool them. Otherwise the daemon has to scan for them.
type subject struct {
	*project
	mounted bool
	c       *wire.Client
	clock   atomic.Int64
	n       int
}

func newSubject(t *testing.T, mounted bool) *subject {
	s := &subject{project: newProject(t), mounted: mounted}
	s.clock.Store(time.Now().UnixNano())
	s.opt.Shown = readers.Options{Now: func() time.Time { return time.Unix(0, s.clock.Load()) }}
	s.start()
	if mounted {
		s.attach()
		s.writer()
	}
	s.c = s.dial("hook")
	return s
}

func (s *subject) Write(t testing.TB, path, content string) {
	if s.mounted {
		s.through(event.OpWrite, path, content, nil)
		return
	}
	s.write(path, content)
}

func (s *subject) Hidden() bool { return !s.mounted }

func (s *subject) WriteSameStat(t testing.TB, path, content string) {
	name := filepath.Join(s.root, path)
	fi, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	s.write(path, content)
	if err := os.Chtimes(name, fi.ModTime(), fi.ModTime()); err != nil {
		t.Fatal(err)
	}
}

func (s *subject) Remove(t testing.TB, path string) {
	if err := os.Remove(filepath.Join(s.root, path)); err != nil {
		t.Fatal(err)
	}
	if s.mounted {
		s.append(&spool.Record{Kind: spool.KindVersion, Time: now(), Op: event.OpUnlink, Path: path, LastName: true})
	}
}

func (s *subject) Rename(t testing.TB, from, to string) {
	if err := os.Rename(filepath.Join(s.root, from), filepath.Join(s.root, to)); err != nil {
		t.Fatal(err)
	}
	if !s.mounted {
		return
	}
	f, err := os.Open(filepath.Join(s.root, to))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := source.StatOf(f)
	if err != nil {
		t.Fatal(err)
	}
	s.append(&spool.Record{Kind: spool.KindVersion, Time: now(), Op: event.OpRename, Path: from, Path2: to, Stat: event.Stat(st)})
}

func (s *subject) Symlink(t testing.TB, target, path string) {
	name := filepath.Join(s.root, path)
	_ = os.Remove(name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	rel, err := filepath.Rel(filepath.Dir(path), target)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(rel, name); err != nil {
		t.Fatal(err)
	}
	if s.mounted {
		s.append(&spool.Record{Kind: spool.KindVersion, Time: now(), Op: event.OpSymlink, Path: path, Target: rel, Stat: event.Stat{Mode: 0o120777, Nlink: 1}})
	}
}

func (s *subject) Advance(_ testing.TB, d time.Duration)   { s.clock.Add(int64(d)) }
func (s *subject) Unknown(t testing.TB) conformance.Reader { return &overSocket{s: s} }

func (s *subject) Reader(t testing.TB) conformance.Reader {
	s.n++
	r := &overSocket{s: s, id: wire.Reader{Session: fmt.Sprint("session-", s.n)}}
	r.Event(t, "start")
	return r
}

// overSocket is a client of the daemon that represents one context window.
type overSocket struct {
	s  *subject
	id wire.Reader
}

func (o *overSocket) ask(t testing.TB, q wire.ReadRequest) conformance.Answer {
	var a wire.ReadAnswer
	body, err := o.s.c.Call(context.Background(), wire.MRead, q, nil, &a)
	if err != nil {
		return conformance.Answer{Err: err}
	}
	switch {
	case a.Label == "":
		return conformance.Answer{Text: string(body)}
	case len(body) == 0:
		return conformance.Answer{Text: a.Label}
	}
	return conformance.Answer{Text: a.Label + "\n" + string(body)}
}

func (o *overSocket) request(r conformance.Read) wire.ReadRequest {
	return wire.ReadRequest{Reader: o.id, Path: []byte(r.Path), Offset: r.Offset, Limit: r.Limit, Force: r.Force, DiffOffset: r.DiffOffset, Tool: "read_file"}
}

func (o *overSocket) Read(t testing.TB, r conformance.Read) conformance.Answer {
	return o.ask(t, o.request(r))
}

func (o *overSocket) ReadPending(t testing.TB, use string, r conformance.Read) conformance.Answer {
	q := o.request(r)
	q.Pending, q.Reader.ToolUse = true, use
	return o.ask(t, q)
}

func (o *overSocket) Commit(t testing.TB, use, text string) {
	if _, err := o.s.c.Call(context.Background(), wire.MCommit, wire.Commit{Reader: o.id, Calls: []wire.CommitCall{{ToolUse: use, Text: text}}}, nil, nil); err != nil {
		t.Fatal(err)
	}
}

func (o *overSocket) Event(t testing.TB, name string) {
	ask[wire.SessionAnswer](o.s.project, o.s.c, wire.MSession, wire.SessionEvent{Session: o.id.Session, Agent: o.id.Agent, Event: name})
}

func (o *overSocket) Alive(t testing.TB, uses []string, readable bool) {
	e := wire.SessionEvent{Session: o.id.Session, Event: "prompt", Checked: true, Alive: uses}
	if readable && uses == nil {
		e.Alive = []string{}
	}
	if !readable {
		e.Alive = nil
	}
	ask[wire.SessionAnswer](o.s.project, o.s.c, wire.MSession, e)
}

func (o *overSocket) Agent(t testing.TB, id string) conformance.Reader {
	return &overSocket{s: o.s, id: wire.Reader{Session: o.id.Session, Agent: id}}
}

func (o *overSocket) Edit(t testing.TB, path, old, new string) {
	before, err := os.ReadFile(filepath.Join(o.s.root, path))
	if err != nil {
		t.Fatal(err)
	}
	after := conformance.Replace(string(before), old, new)
	o.s.Write(t, path, after)
	if _, err := o.s.c.Call(context.Background(), wire.MOwnEdit, wire.OwnEdit{Reader: o.id, Path: []byte(path), Before: onwire.Hash(sha256.Sum256(before)), Old: old, New: new, Tool: "Edit"}, []byte(after), nil); err != nil {
		t.Fatal(err)
	}
}

// TestConformance tests, through the socket and with a real store, how reads are answered. It runs
// the same suite as the tests of package readers.
func TestConformance(t *testing.T) {
	t.Run("mounted", func(t *testing.T) {
		conformance.Run(t, func(t *testing.T) conformance.Subject { return newSubject(t, true) })
	})
	t.Run("unmounted", func(t *testing.T) {
		conformance.Run(t, func(t *testing.T) conformance.Subject { return newSubject(t, false) })
	})
}
