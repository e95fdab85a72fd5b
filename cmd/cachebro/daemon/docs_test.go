package daemon

import (
	"fmt"
	"strings"
	"testing"

	"cachebro/store/leaf/event"
	"cachebro/store/leaf/spool"
	"cachebro/store/wire"
)

// TestDocs checks that right after a write to the code, the answer calls the pair of code and
// document stale, and contains the diff of that write. The baseline survives a restart, a full
// reindex and a garbage collection that removes all old versions.
func TestDocs(t *testing.T) {
	p := newProject(t)
	p.start()
	p.attach()
	c := p.dial("cli")
	state := func(q wire.DocsRequest) string {
		t.Helper()
		q.Do = "check"
		a := ask[wire.DocsAnswer](p, c, wire.MDocs, q)
		var out []string
		for _, pair := range a.Pairs {
			s := fmt.Sprintf("%s %s %s", pair.Doc, pair.Code, pair.State)
			for _, ch := range pair.Changes {
				s += fmt.Sprintf(" %s +%d -%d by %s", ch.Path, ch.Added, ch.Removed, ch.First.Actor.Comm)
			}
			out = append(out, s)
		}
		return strings.Join(out, "; ")
	}
	want := func(when, w string) {
		t.Helper()
		if got := state(wire.DocsRequest{}); got != w {
			t.Errorf("%s: %s, want %s", when, got, w)
		}
	}
	p.append(&spool.Record{Kind: spool.KindProcess, Time: now(), PID: 4000001, Start: 77, Comm: "sed"})
	by := func(r *spool.Record) { r.PID, r.Start = 4000001, 77 }
	p.through(event.OpWrite, "src/a.go", "one\ntwo\n", nil)
	p.through(event.OpWrite, "docs/a.md", "# A\n\nas in `src/a.go`\n", nil)
	want("at first", "docs/a.md src/a.go ok")
	for i := range 20 {
		p.through(event.OpWrite, "src/a.go", fmt.Sprintf("one\nthree %d\n", i), by)
		want("at once", "docs/a.md src/a.go stale src/a.go +1 -1 by sed")
	}
	a := ask[wire.DocsAnswer](p, c, wire.MDocs, wire.DocsRequest{Do: "check", Path: []byte("docs"), Diff: true})
	if len(a.Pairs) != 1 || a.Stale != 1 || a.Pairs[0].Changes[0].Versions != 20 || !strings.Contains(a.Pairs[0].Changes[0].Diff, "-two\n+three 19\n") {
		t.Errorf("%+v", a)
	}

	ask[wire.StoreAnswer](p, c, wire.MIndex, wire.IndexRequest{Do: "full"})
	ask[wire.StoreAnswer](p, c, wire.MStore, wire.StoreRequest{Do: "prune", Keep: 1})
	p.end()
	p.through(event.OpWrite, "src/a.go", "written while nobody listened\n", by)
	p.start()
	p.attach()
	c = p.dial("cli")
	want("after a restart", "docs/a.md src/a.go stale src/a.go +1 -2 by sed")
	if got := state(wire.DocsRequest{Explicit: true}); got != "" {
		t.Errorf("said outright: %s", got)
	}
	m := ask[wire.DocsAnswer](p, c, wire.MDocs, wire.DocsRequest{Do: "mark", Path: []byte("docs/a.md"), Reader: wire.Reader{Session: "S"}})
	if len(m.Pairs) != 1 || m.Pairs[0].State != "stale" || m.Seq == 0 {
		t.Errorf("%+v", m)
	}
	want("marked", "docs/a.md src/a.go ok")
	if a = ask[wire.DocsAnswer](p, c, wire.MDocs, wire.DocsRequest{Do: "check"}); a.Pairs[0].By != "cli, session S" {
		t.Errorf("%+v", a.Pairs[0])
	}
	p.end()
	p.start()
	p.attach()
	c = p.dial("cli")
	want("marked, and after a restart", "docs/a.md src/a.go ok")
}
