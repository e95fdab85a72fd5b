package readers

import (
	"sync"
	"testing"

	"cachebro/store"
	"cachebro/store/wire"
)

// Afford never brings a session's balance below zero, even if many requests are concurrent. It
// takes the cost of the tool schema into account.
func TestAfford(t *testing.T) {
	s, err := New(nil, nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	main, sub := store.Reader{Session: "s"}, store.Reader{Session: "s", Agent: "a"}
	if s.Afford(main, "recovery", 1) {
		t.Error("a session that has saved nothing was given something")
	}
	s.Event(Event{Reader: main, Name: "start"})
	s.Event(Event{Reader: sub, Name: "subagent-start"})
	s.Spend(main, "Read", 1000, 400, false, wire.ReadUnchanged)
	s.Spend(sub, "Read", 500, 500, false, wire.ReadFull)
	s.Spend(main, "schema", 0, 50, false, "") // in both contexts
	var wg sync.WaitGroup
	var mu sync.Mutex
	booked := 0
	for range 40 {
		wg.Go(func() {
			if s.Afford(sub, "recovery", 40) {
				mu.Lock()
				defer mu.Unlock()
				booked++
			}
		})
	}
	wg.Wait()
	// Of the 500 saved tokens, twelve texts of 40 leave 20. One more text would need 50.
	if m := s.Metrics("s", false); booked != 12 || m.Saved() != 20 || m.Overhead != 580 {
		t.Errorf("%d were booked, %d tokens saved, %d of overhead; want 12, 20, 580", booked, m.Saved(), m.Overhead)
	}
	if s.Afford(store.Reader{Session: "other"}, "recovery", 1) {
		t.Error("one session pays for another")
	}
}
