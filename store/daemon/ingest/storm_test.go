package ingest

import (
	"testing"
	"time"
)

// TestStorm: many records in a short time hold the index, few do not; quiet
// lets it go, and a storm without end lets it have its turn.
func TestStorm(t *testing.T) {
	held, holds := 0, 0
	s := storm{hold: func() func() {
		held++
		holds++
		return func() { held-- }
	}}
	now := time.Unix(1_800_000_000, 0)
	step := func(d time.Duration, items int) {
		now = now.Add(d)
		s.note(items, now)
	}
	for range 50 { // someone who saves a file now and then
		step(stormWindow/2, StormItems/4)
	}
	if holds != 0 {
		t.Fatalf("held %d times by a few records", holds)
	}
	step(time.Second, StormItems/2)
	step(stormWindow/4, StormItems/2)
	if held != 1 {
		t.Fatalf("held %d times by %d records in %v", held, StormItems, stormWindow/4)
	}
	s.over()
	s.over()
	if held != 0 || holds != 1 {
		t.Fatalf("held %d times after %d holds", held, holds)
	}
	// Another one at once, and for a minute: the index gets its share.
	var longest, free time.Duration
	for since := now; now.Sub(since) < time.Minute; {
		was := held
		step(stormWindow/2, StormItems)
		if held > 1 {
			t.Fatal("held twice")
		}
		if was == 1 && held == 1 {
			longest = max(longest, now.Sub(s.since))
		} else if held == 0 {
			free += stormWindow / 2
		}
	}
	if longest > stormMost {
		t.Errorf("held for %v", longest)
	}
	if free < 4*stormPause {
		t.Errorf("in a minute the index had %v", free)
	}
	s.over()
	if held != 0 {
		t.Error("held for ever")
	}
}
