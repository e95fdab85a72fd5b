package ingest

import (
	"testing"
	"time"
)

// TestBurst checks that many records in a short time pause the index and few do not. The index
// continues when it is quiet, and gets its turn during a burst without end.
func TestBurst(t *testing.T) {
	held, holds := 0, 0
	s := burst{hold: func() func() {
		held++
		holds++
		return func() { held-- }
	}}
	now := time.Unix(1_800_000_000, 0)
	step := func(d time.Duration, items int) {
		now = now.Add(d)
		s.note(items, now)
	}
	for range 50 { // like a person who saves a file now and then
		step(burstWindow/2, BurstItems/4)
	}
	if holds != 0 {
		t.Fatalf("held %d times by a few records", holds)
	}
	step(time.Second, BurstItems/2)
	step(burstWindow/4, BurstItems/2)
	if held != 1 {
		t.Fatalf("held %d times by %d records in %v", held, BurstItems, burstWindow/4)
	}
	s.end()
	s.end()
	if held != 0 || holds != 1 {
		t.Fatalf("held %d times after %d holds", held, holds)
	}
	// In a second burst, which lasts a minute, the index gets its share of the time.
	var longest, free time.Duration
	for since := now; now.Sub(since) < time.Minute; {
		was := held
		step(burstWindow/2, BurstItems)
		if held > 1 {
			t.Fatal("held twice")
		}
		if was == 1 && held == 1 {
			longest = max(longest, now.Sub(s.heldSince))
		} else if held == 0 {
			free += burstWindow / 2
		}
	}
	if longest > burstMost {
		t.Errorf("held for %v", longest)
	}
	if free < 4*burstGap {
		t.Errorf("in a minute the index had %v", free)
	}
	s.end()
	if held != 0 {
		t.Error("held for ever")
	}
}
