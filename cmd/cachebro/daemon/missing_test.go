package daemon

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"cachebro/store/leaf/event"
	"cachebro/store/leaf/spool"
	"cachebro/store/wire"
)

// If mountd died between a version and its content, the content is taken from the file, if the file
// still has it. Otherwise it is reported as a gap.
func TestContentThatNeverCame(t *testing.T) {
	p := newProject(t)
	p.write("there", "still as it was\n")
	w := p.writer()
	st := p.statOf("there")
	p.append(
		&spool.Record{Kind: spool.KindVersion, Time: now(), Op: event.OpWrite, Path: "there", Node: 1, HasContent: true, Stat: st},
		&spool.Record{Kind: spool.KindVersion, Time: now(), Op: event.OpWrite, Path: "gone", Node: 2, HasContent: true, Stat: event.Stat{Mode: syscall.S_IFREG | 0o644, Size: 5}},
	)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	p.start()
	c := p.dial("cli")
	vs := p.log(c, wire.LogQuery{Oldest: true})
	if len(vs) != 2 || vs[0].Hash == "" || vs[1].Hash != "" || !strings.HasPrefix(vs[1].NoContent, "gap") {
		t.Fatalf("%+v", vs)
	}
	if b, err := c.Call(context.Background(), wire.MShow, wire.ShowQuery{Seq: vs[0].Seq}, nil, nil); err != nil || string(b) != "still as it was\n" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := c.Call(context.Background(), wire.MShow, wire.ShowQuery{Seq: vs[1].Seq}, nil, nil); !errors.Is(err, wire.ErrPruned) || wire.Hint(err) == "" {
		t.Errorf("show of a gap: %v", err)
	}
	s := ask[wire.Status](p, c, wire.MStatus, wire.Empty{})
	if s.GapCount != 1 || len(s.Gaps) != 1 || string(s.Gaps[0].Path) != "gone" || s.Mounted {
		t.Errorf("status: %+v", s)
	}
}

// After a restart, the store may no longer have the beginning of a file to which something is
// appended. The whole file is then read.
func TestTailAfterRestart(t *testing.T) {
	p := newProject(t)
	p.start()
	c := p.dial("cli")
	p.write("log", "one\n")
	st := p.statOf("log")
	p.closed(event.OpWrite, "log", []byte("one\n"), func(r *spool.Record) { r.Node, r.Stat = 7, st })
	p.log(c, wire.LogQuery{})
	p.end()
	p.start()
	c = p.dial("cli")
	p.write("log", "one\ntwo\n")
	st = p.statOf("log")
	p.closed(event.OpWrite, "log", []byte("two\n"), func(r *spool.Record) { r.Node, r.Stat, r.TailFrom = 7, st, 4 })
	if b, err := c.Call(context.Background(), wire.MShow, wire.ShowQuery{Path: []byte("log")}, nil, nil); err != nil || string(b) != "one\ntwo\n" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestPanicIsContained(t *testing.T) {
	d := &Daemon{log: slog.New(slog.DiscardHandler)}
	d.table = map[string]wire.Handler{"boom": func(context.Context, *wire.Request) (any, []byte, error) { panic("boom") }}
	_, _, err := d.handle(context.Background(), &wire.Request{Method: "boom"})
	if !errors.Is(err, wire.ErrInternal) || d.panics.Load() != 1 {
		t.Errorf("%v, %d panics", err, d.panics.Load())
	}
}

// Node numbers start again with each mount, so an append to node 7 of the new mount must not be
// joined to node 7 of the old one.
func TestNodesOfTwoMounts(t *testing.T) {
	p := newProject(t)
	p.start()
	c := p.dial("cli")
	p.closed(event.OpWrite, "a", []byte("aaaa"), func(r *spool.Record) { r.Node = 7 })
	p.append(&spool.Record{Kind: spool.KindMount, Time: now(), Version: "1.0"})
	p.write("b", "bbbbtail")
	st := p.statOf("b")
	p.closed(event.OpWrite, "b", []byte("tail"), func(r *spool.Record) { r.Node, r.TailFrom, r.Stat = 7, 4, st })
	if b, err := c.Call(context.Background(), wire.MShow, wire.ShowQuery{Path: []byte("b")}, nil, nil); err != nil || string(b) != "bbbbtail" {
		t.Errorf("%q, %v", b, err)
	}
}

// An answer includes everything that was spooled before the request. A request costs almost nothing
// if nothing is new.
func TestWaitForTheHead(t *testing.T) {
	p := newProject(t)
	p.start()
	p.attach()
	c := p.dial("cli")
	for i := range 50 {
		p.closed(event.OpWrite, "f", []byte{byte(i)}, nil)
		b, err := c.Call(context.Background(), wire.MShow, wire.ShowQuery{Path: []byte("f")}, nil, nil)
		if err != nil || len(b) != 1 || b[0] != byte(i) {
			t.Fatalf("%d: %v, %v", i, b, err)
		}
	}
	start := time.Now()
	for range 50 {
		p.log(c, wire.LogQuery{Limit: 1})
	}
	if d := time.Since(start); d > 2*time.Second {
		t.Errorf("50 questions took %v", d)
	}
}
