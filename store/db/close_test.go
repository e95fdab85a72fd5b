package db

import (
	"log/slog"
	"testing"
	"time"

	"cachebro/store/space"
)

// Close waits for the calls in progress, in whichever order they end. New calls are refused.
func TestCloseWaitsForCalls(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, space.New(dir, space.Options{}), Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if !s.enter() {
			t.Fatal("an open store is closed")
		}
	}
	closed := make(chan error, 1)
	go func() { s.RefuseCalls(); closed <- s.Close(func() error { return nil }) }()
	for end := time.Now().Add(time.Minute); !s.Closed(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("Close does not begin")
		}
	}
	for range 100 {
		if s.enter() {
			t.Fatal("a call gets into a store that is being closed")
		}
	}
	s.leave()
	select {
	case err := <-closed:
		t.Fatalf("closed under a call (%v)", err)
	case <-time.After(20 * time.Millisecond):
	}
	s.leave()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("Close waits for nobody")
	}
}
