package daemon

import (
	"fmt"
	"testing"

	"cachebro/cmd/cachebro/daemon/ingest"
	"cachebro/store/leaf/event"
	"cachebro/store/wire"
)

// TestBurstEnds checks that after a burst the index reads the files that it had postponed.
func TestBurstEnds(t *testing.T) {
	p := newProject(t)
	p.start()
	p.through(event.OpCreate, "first.txt", "the first file\n", nil)
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
	for i := range 3 * ingest.BurstItems {
		p.through(event.OpCreate, fmt.Sprintf("f%d.txt", i), fmt.Sprintf("word%d in a burst\n", i), nil)
	}
	if n := search(fmt.Sprintf("word%d", 3*ingest.BurstItems-1)); n != 1 {
		t.Errorf("%d hits in the midst of it", n)
	}
	for i := range 30 { // every request finds everything, however often ingestion pauses
		for j := range ingest.BurstItems / 8 {
			p.through(event.OpWrite, fmt.Sprintf("f%d.txt", j), fmt.Sprintf("round%d file%d\n", i, j), nil)
		}
		if n := search(fmt.Sprintf("round%d file%d", i, ingest.BurstItems/8-1)); n != 1 {
			t.Fatalf("%d hits in round %d of it", n, i)
		}
	}
	eventually(t, "the index after the burst", indexed(1+3*ingest.BurstItems))
	if n := search(fmt.Sprintf("word%d in a burst", ingest.BurstItems)); n != 1 {
		t.Errorf("%d hits after it", n)
	}
}
