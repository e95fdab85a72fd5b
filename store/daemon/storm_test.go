package daemon

import (
	"fmt"
	"testing"
	"time"

	"cachebro/fusefs/capture/spool"
	"cachebro/store/wire"
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
		step(stormWindow/2, stormItems/4)
	}
	if holds != 0 {
		t.Fatalf("held %d times by a few records", holds)
	}
	step(time.Second, stormItems/2)
	step(stormWindow/4, stormItems/2)
	if held != 1 {
		t.Fatalf("held %d times by %d records in %v", held, stormItems, stormWindow/4)
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
		step(stormWindow/2, stormItems)
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

// TestStormEnds: after a storm the index takes up what it had left.
func TestStormEnds(t *testing.T) {
	p := newProject(t)
	p.start()
	p.through(spool.OpCreate, "first.txt", "the first file\n", nil)
	c := p.dial("cli")
	search := func(pattern string) int {
		return len(ask[wire.SearchAnswer](p, c, wire.MSearch, wire.SearchQuery{Pattern: pattern, Mode: wire.SearchExact}).Hits)
	}
	indexed := func(files int) func() bool {
		return func() bool {
			m := ask[wire.Status](p, c, wire.MStatus, wire.Empty{}).Index
			n, _ := m["indexed"].(float64)
			return m["ready"] == true && int(n) == files
		}
	}
	eventually(t, "the first index", indexed(1))
	for i := range 3 * stormItems {
		p.through(spool.OpCreate, fmt.Sprintf("f%d.txt", i), fmt.Sprintf("word%d in a storm\n", i), nil)
	}
	if n := search(fmt.Sprintf("word%d", 3*stormItems-1)); n != 1 {
		t.Errorf("%d hits in the midst of it", n)
	}
	for i := range 30 { // whoever asks is told all, however often ingestion rests
		for j := range stormItems / 8 {
			p.through(spool.OpWrite, fmt.Sprintf("f%d.txt", j), fmt.Sprintf("round%d file%d\n", i, j), nil)
		}
		if n := search(fmt.Sprintf("round%d file%d", i, stormItems/8-1)); n != 1 {
			t.Fatalf("%d hits in round %d of it", n, i)
		}
	}
	eventually(t, "the index after the storm", indexed(1+3*stormItems))
	if n := search(fmt.Sprintf("word%d in a storm", stormItems)); n != 1 {
		t.Errorf("%d hits after it", n)
	}
}
