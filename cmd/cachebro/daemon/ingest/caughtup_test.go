package ingest

import (
	"context"
	"errors"
	"testing"
	"time"

	"cachebro/store/leaf/event"
	"cachebro/store/leaf/spool"
	"cachebro/store/wire"
)

// TestCaughtUp: under load the daemon is seconds behind the mount, so an undo of 10,201 deletions
// used to be planned with only 7,168 of them.
func TestCaughtUp(t *testing.T) {
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
	g.health.Store(&health{ok: true})
	if _, err := w.Append(&spool.Record{Kind: spool.KindVersion, Op: event.OpUnlink, Path: "a"}); err != nil {
		t.Fatal(err)
	}
	head, err := r.Head()
	if err != nil {
		t.Fatal(err)
	}

	if whole, err := g.CaughtUp(t.Context(), time.Millisecond, time.Hour); whole || !errors.Is(err, wire.ErrTimeout) {
		t.Errorf("behind for too long: %v, %v", whole, err)
	}
	if whole, err := g.CaughtUp(t.Context(), time.Hour, time.Millisecond); whole || err != nil {
		t.Errorf("nothing moves: %v, %v", whole, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if whole, err := g.CaughtUp(ended, time.Hour, time.Hour); whole || !errors.Is(err, context.Canceled) {
		t.Errorf("nobody waits any more: %v, %v", whole, err)
	}
	g.health.Store(&health{reason: "full"})
	if whole, err := g.CaughtUp(t.Context(), time.Hour, time.Hour); whole || err != nil {
		t.Errorf("the store takes nothing: %v, %v", whole, err)
	}
	g.health.Store(&health{ok: true})
	done := make(chan error, 1)
	go func() {
		whole, err := g.CaughtUp(t.Context(), time.Hour, time.Hour)
		if !whole && err == nil {
			err = errors.New("not whole")
		}
		done <- err
	}()
	waitUntil(t, "the wait", func() bool { return g.waiters.Load() > 0 })
	select {
	case err := <-done:
		t.Errorf("it did not wait: %v", err)
	default:
	}
	// The call does not wait for records that arrive in the meantime.
	if _, err := w.Append(&spool.Record{Kind: spool.KindVersion, Op: event.OpUnlink, Path: "b"}); err != nil {
		t.Fatal(err)
	}
	g.publish(head, 1)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func waitUntil(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 30 s", what)
		}
	}
}
