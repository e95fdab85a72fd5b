package store

import (
	"testing"
	"time"
)

// Close waits for the calls under way, each of which may be the last, and lets no
// other one in.
func TestCloseWaitsForCalls(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	for range 2 {
		if !s.enter() {
			t.Fatal("an open store is closed")
		}
	}
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	for end := time.Now().Add(time.Minute); !s.closed.Load(); time.Sleep(time.Millisecond) {
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
