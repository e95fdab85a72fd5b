package daemon

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"cachebro/fusefs/capture/spool"
	"cachebro/store"
	"cachebro/store/wire"
)

// TestMendTakesOnlyWhatIsRefused: one content that the store refused took the
// contents of the 255 other changes of its batch with it, and where the cause was
// no content at all it took them too.
func TestMendTakesOnlyWhatIsRefused(t *testing.T) {
	s, err := store.Open(t.TempDir(), store.Options{Ballast: -1, MaxBlob: 100})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	g := &ingester{d: &Daemon{store: s, log: slog.New(slog.DiscardHandler)}}
	change := func(p store.Path, size int) store.Change {
		return store.Change{Op: store.OpWrite, Path: p, Time: 1, Stat: store.Stat{Mode: 0o100644, Size: int64(size)}, HasContent: true, Content: bytes.Repeat([]byte("x"), size)}
	}
	cs := []store.Change{change("a", 10), change("b", 1000), change("c", 20), change("d", 2000), change("e", 30)}
	for n := range 2 {
		if !g.mend(t.Context(), cs) {
			t.Fatalf("turn %d: not mended", n)
		}
	}
	if g.mend(t.Context(), cs) {
		t.Error("mended what is in order")
	}
	vs, err := s.Apply(t.Context(), cs, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range vs {
		if kept := v.Blob != (store.Hash{}); kept != (v.Path != "b" && v.Path != "d") || kept != (v.NoContent == "") {
			t.Errorf("%q: kept %v, %q", v.Path, kept, v.NoContent)
		}
	}
	cs = []store.Change{change("f", 10), {Op: 99, Path: "g", HasContent: true}, change("h", 20)}
	if g.mend(t.Context(), cs) || !cs[0].HasContent || !cs[1].HasContent || !cs[2].HasContent {
		t.Errorf("contents are no cause here: %+v", cs)
	}
}

// TestUndoSaysThatTheHistoryIsBehind: with the state's disk full an undo said that
// there was nothing to undo, with hundreds of records unread.
func TestUndoSaysThatTheHistoryIsBehind(t *testing.T) {
	p := newProject(t)
	p.closed(spool.OpCreate, "a", []byte("1\n"), nil)
	p.start()
	c := p.dial("test")
	eventually(t, "the first version", func() bool { return len(p.log(c, wire.LogQuery{})) == 1 })
	p.end()
	p.closed(spool.OpWrite, "a", []byte("2\n"), nil)
	o := p.opt
	o.Log = slog.New(slog.DiscardHandler)
	d, err := open(t.Context(), o, p.state) // nobody ingests
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	d.ingest.unhealthy(store.ErrNoSpace)
	undo := func(q string) (wire.Plan, error) {
		out, _, err := d.plan(t.Context(), &wire.Request{Method: wire.MPlan, Params: []byte(q)})
		plan, _ := out.(wire.Plan)
		return plan, err
	}
	if _, err := undo(`{"kind":"undo","pid":12345,"dry_run":true}`); err == nil || !strings.Contains(err.Error(), "history is behind") {
		t.Errorf("nothing is known of the process: %v", err)
	}
	plan, err := undo(`{"kind":"undo","last":true,"dry_run":true}`)
	if err != nil || len(plan.Conflicts) != 1 || !strings.Contains(plan.Conflicts[0].Why, "history is behind") {
		t.Errorf("%+v, %v", plan, err)
	}
}
