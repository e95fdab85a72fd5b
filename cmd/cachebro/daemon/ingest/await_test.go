package ingest

import (
	"fmt"
	"testing"
	"time"

	"cachebro/store/leaf/event"
	"cachebro/store/leaf/spool"
)

// A request waits for changes that were made just before it. If the backlog is too long to be
// ingested in time, the request does not wait, and reports about how many records are missing.
func TestAwait(t *testing.T) {
	dir := t.TempDir()
	w, err := spool.OpenWriter(dir, spool.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r, err := spool.OpenReader(dir, spool.Position{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	g := &Ingester{reader: r}
	moved := make(chan struct{})
	g.moved.Store(&moved)
	g.pos.Store(&spool.Position{})
	for i := range 1000 {
		if _, err := w.Append(&spool.Record{Kind: spool.KindVersion, Op: event.OpRename, Path: fmt.Sprintf("some/directory/%d", i), Path2: fmt.Sprintf("some/directory/%d", i+1), Time: time.Now().UnixNano()}); err != nil {
			t.Fatal(err)
		}
	}
	head, err := r.Head()
	if err != nil {
		t.Fatal(err)
	}
	g.pace.Store(int64(time.Second)) // as slow as renames of large directories
	if n := g.Await(t.Context(), time.Minute); n < 250 || n > 2000 {
		t.Errorf("about %d records behind, of 1,000", n)
	}
	if g.lastWaiter.Load() != nil {
		t.Error("it waited for what could not come in time")
	}
	g.pace.Store(int64(time.Microsecond))
	done := make(chan uint64, 1)
	go func() { done <- g.Await(t.Context(), time.Minute) }()
	waitUntil(t, "the wait", func() bool { return g.waiters.Load() > 0 })
	g.publish(head, 1000)
	if n := <-done; n != 0 {
		t.Errorf("%d records behind when all is in the log", n)
	}
}

// A moved directory becomes many versions, so the batch has to end before it is too large.
func TestBatchOfMoves(t *testing.T) {
	const dir = 0o040755
	g := &Ingester{versionsPerDirRename: unknownMove}
	var b batch
	n := 0
	for ; b.expected < batchVersions; n++ {
		g.add(&b, spool.Joined{Record: &spool.Record{Kind: spool.KindVersion, Op: event.OpRename, Stat: event.Stat{Mode: dir, Nlink: 3}}})
	}
	if n > batchVersions/unknownMove+1 || b.moves != n {
		t.Errorf("%d renames of directories in one batch, %d counted", n, b.moves)
	}
	for b, n = (batch{}), 0; b.expected < batchVersions; n++ {
		g.add(&b, spool.Joined{Record: &spool.Record{Kind: spool.KindVersion, Op: event.OpWrite, Stat: event.Stat{Mode: 0o100644, Nlink: 5000}}})
	}
	if n > batchVersions/5000+1 {
		t.Errorf("%d writes to a file with 5,000 names in one batch", n)
	}
	for b, n = (batch{}), 0; n < BatchChanges; n++ {
		g.add(&b, spool.Joined{Record: &spool.Record{Kind: spool.KindVersion, Op: event.OpWrite, Stat: event.Stat{Mode: 0o100644, Nlink: 1}}})
	}
	if b.expected >= batchVersions {
		t.Errorf("%d plain writes are %d versions", n, b.expected)
	}
}
