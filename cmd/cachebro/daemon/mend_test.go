package daemon

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"cachebro/store"
	"cachebro/store/leaf/event"
	"cachebro/store/wire"
)

// TestUndoSaysThatTheHistoryIsBehind: while the state's disk was full, an undo used to say that
// there was nothing to undo, although hundreds of records were unread.
func TestUndoSaysThatTheHistoryIsBehind(t *testing.T) {
	p := newProject(t)
	p.closed(event.OpCreate, "a", []byte("1\n"), nil)
	p.start()
	c := p.dial("test")
	eventually(t, "the first version", func() bool { return len(p.log(c, wire.LogQuery{})) == 1 })
	p.end()
	p.closed(event.OpWrite, "a", []byte("2\n"), nil)
	o := p.opt
	o.Log = slog.New(slog.DiscardHandler)
	d, err := open(t.Context(), o, p.state) // without ingesting
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	d.ingest.Unhealthy(store.ErrNoSpace)
	undo := func(q string) (wire.Plan, error) {
		out, _, err := d.handle(t.Context(), &wire.Request{Method: wire.MPlan, Params: []byte(q)})
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

// TestSearchSaysThatTheHistoryIsBehind: while the state's disk was full, a search used to say that
// nothing was found in files that the history did not have yet, docs check that all was in sync, and
// umount that a single record was not stored.
func TestSearchSaysThatTheHistoryIsBehind(t *testing.T) {
	p := newProject(t)
	p.through(event.OpCreate, "a", "1\n", nil)
	p.start()
	p.attach()
	c := p.dial("test")
	eventually(t, "the scan", func() bool { return ask[wire.Status](p, c, wire.MStatus, wire.Empty{}).Baseline.Done })
	ask[wire.DocsAnswer](p, c, wire.MDocs, wire.DocsRequest{Do: "check"}) // saves what it has read; on a full disk it could not
	p.end()
	for range 100 {
		p.through(event.OpWrite, "a", "needle\n", nil)
	}
	p.opt.Store.MinFree = 1 << 60 // as on a full disk
	p.start()
	p.attach()
	c = p.dial("test")
	if a := ask[wire.SearchAnswer](p, c, wire.MSearch, wire.SearchQuery{Pattern: "needle", Mode: wire.SearchExact}); !strings.Contains(a.Warning, "history is behind") {
		t.Errorf("search: %+v", a)
	}
	if a := ask[wire.DocsAnswer](p, c, wire.MDocs, wire.DocsRequest{Do: "check"}); len(a.Problems) != 1 || !strings.Contains(a.Problems[0], "history is behind") {
		t.Errorf("docs: %+v", a)
	}
	if st := ask[wire.Status](p, c, wire.MStatus, wire.Empty{}); st.Store.Lag < 20 {
		t.Errorf("status: %d records are missing", st.Store.Lag)
	}
	p.stop()
	p.stop = nil
	if err := <-p.ended; !errors.Is(err, store.ErrNoSpace) {
		t.Errorf("the daemon ended with %v", err)
	}
}

// TestLogAnswersOnAFullDisk: if nothing was mounted, log waited without end for its scan to store what
// it had found.
func TestLogAnswersOnAFullDisk(t *testing.T) {
	p := newProject(t)
	p.write("a", "1\n")
	p.start()
	p.attach()
	c := p.dial("test")
	eventually(t, "the scan", func() bool { return ask[wire.Status](p, c, wire.MStatus, wire.Empty{}).Baseline.Done })
	p.end()
	p.write("b", "2\n")
	p.opt.Store.MinFree = 1 << 60 // as on a full disk
	p.start()
	c = p.dial("test")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := wire.Call[wire.LogAnswer](ctx, c, wire.MLog, wire.LogQuery{Limit: 1}); err != nil {
		t.Error(err)
	}
	p.stop()
	p.stop = nil
	if err := <-p.ended; err != nil && !errors.Is(err, store.ErrNoSpace) {
		t.Errorf("the daemon ended with %v", err)
	}
}
