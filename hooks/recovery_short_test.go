package hooks

import (
	"strings"
	"testing"
	"time"

	"cachebro/store/wire"
)

// TestShorterRecovery: what a block costs stays in proportion to what the session
// has saved, and what is to be known all the same is told.
func TestShorterRecovery(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*wire.Recovery)
		want string // "full" or the text
	}{
		{"saved enough", func(*wire.Recovery) {}, "full"},
		{"nothing saved", func(r *wire.Recovery) { r.Metrics = wire.Metrics{} }, "## cachebro session state\nModified: src/cache.ts, src/mcp.ts\n"},
		{"less than it costs", func(r *wire.Recovery) { r.Metrics.Saved = 20 }, "## cachebro session state\nModified: src/cache.ts, src/mcp.ts\n"},
		{"in the red", func(r *wire.Recovery) {
			r.Metrics.Saved = -12
			r.Set.Files = []wire.WorkingFile{{Path: []byte("a\x1b[2J.go"), Deleted: true}}
			r.Changed = []string{"b.go (12:41 by gofmt)", "c.go (12:42 by vi)"}
			r.Failed = "go test ./...\nrm -rf x"
		}, "## cachebro session state\nModified: a[2J.go (deleted)\nChanged by others since: b.go (12:41 by gofmt); c.go (12:42 by vi)\nLast failing command: go test ./...rm -rf x\n"},
		{"only read", func(r *wire.Recovery) { r.Metrics.Saved, r.Set.Files = 3, r.Set.Files[2:] }, ""},
		{"many files", func(r *wire.Recovery) {
			r.Metrics.Saved = 0
			for range 50 {
				r.Set.Files = append(r.Set.Files, wire.WorkingFile{Path: []byte(strings.Repeat("x", 100)), Edits: 1})
			}
		}, "## cachebro session state\nModified: src/cache.ts, src/mcp.ts, " + strings.Repeat("x", 100) + " and 49 more (cachebro working-set)\n"},
	} {
		r := recovery()
		c.edit(&r)
		full := RecoveryBlock(r, time.UTC)
		want := c.want
		if want == "full" {
			want = full
		}
		if got := shorterRecovery(r, full); got != want {
			t.Errorf("%s: got %q, want %q", c.name, got, want)
		}
	}
	r := recovery()
	r.Metrics.Saved = 0
	r.Notes = []wire.Note{{ID: "not-0a1b2c3d", Kind: "decision", Text: "keep the LRU", Time: at(12, 0)}}
	if got := shorterRecovery(r, RecoveryBlock(r, time.UTC)); !strings.Contains(got, "keep the LRU") {
		t.Errorf("a note is not told: %q", got)
	}
}
