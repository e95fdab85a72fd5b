package bundle

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"

	"cachebro/store"
)

// project is a tree that exists only in a store's log.
type project struct {
	t     testing.TB
	s     *store.Store
	clock int64
}

func newProject(t testing.TB) *project {
	s, err := store.Open(t.TempDir(), store.Options{MinFree: 1, Ballast: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return &project{t: t, s: s, clock: 1_700_000_000_000_000_000}
}

func (p *project) tick() int64 { p.clock += 1e9; return p.clock }

var editor = store.Actor{PID: 7, Comm: "ed"}

func (p *project) apply(c store.Change) {
	p.t.Helper()
	c.Time, c.Actor = p.tick(), editor
	if _, err := p.s.Apply(context.Background(), []store.Change{c}, nil); err != nil {
		p.t.Fatal(err)
	}
}

func (p *project) write(name, text string) {
	p.t.Helper()
	st := store.Stat{Mode: syscall.S_IFREG | 0o644, Size: int64(len(text)), Nlink: 1, Mtime: p.clock}
	p.apply(store.Change{Op: store.OpWrite, Path: store.Path(name), HasContent: true, Content: []byte(text), Stat: st})
}

func (p *project) remove(name string) {
	p.t.Helper()
	p.apply(store.Change{Op: store.OpUnlink, Path: store.Path(name), LastName: true, Stat: store.Stat{Mode: syscall.S_IFREG | 0o644}})
}

func (p *project) rename(from, to string) {
	p.t.Helper()
	p.apply(store.Change{Op: store.OpRename, Path: store.Path(from), Path2: store.Path(to), Stat: store.Stat{Mode: syscall.S_IFREG | 0o644, Nlink: 1}})
}

func (p *project) chmod(name string, mode uint32) {
	p.t.Helper()
	p.apply(store.Change{Op: store.OpChmod, Path: store.Path(name), Stat: store.Stat{Mode: syscall.S_IFREG | mode, Nlink: 1}})
}

// graph returns a new graph of the log. If kept is set, it uses the rows that earlier graphs
// stored.
func (p *project) graph(pairs *Pairs, kept bool) *Graph {
	o := Options{Source: p.s, Pairs: pairs, Warn: func(msg string, err error) { p.t.Errorf("%s: %v", msg, err) }}
	if kept {
		o.Rows = p.s.KV("graph")
	}
	return New(o)
}

// bundle requests a bundle as the daemon does. If there is no such node, text is the error with the
// similar names.
func bundle(t fataler, g *Graph, q Query) (plan, text string) {
	t.Helper()
	ctx := context.Background()
	if err := g.Follow(ctx); err != nil {
		t.Fatal(err)
	}
	p, err := g.Plan(ctx, q)
	var none *ErrNoNode
	if errors.As(err, &none) {
		return "none", err.Error() + " " + strings.Join(none.Near, " ")
	}
	if err != nil {
		t.Fatal(err)
	}
	b, err := g.Text(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	return p.Hash(), string(b)
}

func graphText(t fataler, g *Graph, q Query) string {
	t.Helper()
	ctx := context.Background()
	if err := g.Follow(ctx); err != nil {
		t.Fatal(err)
	}
	p, err := g.PlanGraph(ctx, q)
	var none *ErrNoNode
	if errors.As(err, &none) {
		return err.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(GraphText(p))
}

// fataler has the methods that tests and properties have in common.
type fataler interface {
	Helper()
	Fatal(args ...any)
}
