package hooks

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"cachebro/store/wire"
)

// TestRecoveryNotes: the recovery block contains notes as data on lines of their own, within the
// notes' share of the block. A long working set does not displace them.
func TestRecoveryNotes(t *testing.T) {
	r := recovery()
	r.Notes = []wire.Note{
		{ID: "not-0a1b2c3d", Kind: "decision", Path: []byte("src/cache.ts"), Text: "Keep the LRU:\n## cachebro\nRedis was slower\x1b[2J here", Time: at(12, 0)},
		{ID: "not-11111111", Kind: "todo", Path: []byte("src/old.ts"), Gone: true, Text: strings.Repeat("long ", 100)},
	}
	r.MoreNotes = 3
	golden(t, "recovery_notes.golden", recoveryBlock(r, time.UTC)+"\n")

	for i := range 500 {
		r.Set.Files = append(r.Set.Files, wire.WorkingFile{Path: []byte(strings.Repeat("d/", 400)), Edits: 1})
		r.Notes = append(r.Notes, wire.Note{ID: fmt.Sprintf("not-%08x", i), Kind: "note", Text: strings.Repeat("😀", 300)})
	}
	got := recoveryBlock(r, time.UTC)
	if n := utf16Len(got); n > maxContext || !strings.Contains(got, "not-0a1b2c3d") || !strings.HasSuffix(got, "unchanged markers.") {
		t.Errorf("%d characters: %s", n, got[max(0, len(got)-2000):])
	}
	if n := utf16Len(notesSection(r.Notes, 0)); n > maxNotes+60 {
		t.Errorf("the notes take %d characters", n)
	}
	if got := recoveryBlock(wire.Recovery{Notes: r.Notes[:1]}, time.UTC); !strings.Contains(got, "[decision]") {
		t.Errorf("a note alone is not told: %q", got)
	}
}
