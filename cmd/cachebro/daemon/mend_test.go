package daemon

import (
	"log/slog"
	"strings"
	"testing"

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
