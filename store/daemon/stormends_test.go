package daemon

import (
	"fmt"
	"testing"

	"cachebro/fusefs/capture/spool"
	"cachebro/store/daemon/ingest"
	"cachebro/store/wire"
)

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
	for i := range 3 * ingest.StormItems {
		p.through(spool.OpCreate, fmt.Sprintf("f%d.txt", i), fmt.Sprintf("word%d in a storm\n", i), nil)
	}
	if n := search(fmt.Sprintf("word%d", 3*ingest.StormItems-1)); n != 1 {
		t.Errorf("%d hits in the midst of it", n)
	}
	for i := range 30 { // whoever asks is told all, however often ingestion rests
		for j := range ingest.StormItems / 8 {
			p.through(spool.OpWrite, fmt.Sprintf("f%d.txt", j), fmt.Sprintf("round%d file%d\n", i, j), nil)
		}
		if n := search(fmt.Sprintf("round%d file%d", i, ingest.StormItems/8-1)); n != 1 {
			t.Fatalf("%d hits in round %d of it", n, i)
		}
	}
	eventually(t, "the index after the storm", indexed(1+3*ingest.StormItems))
	if n := search(fmt.Sprintf("word%d in a storm", ingest.StormItems)); n != 1 {
		t.Errorf("%d hits after it", n)
	}
}
