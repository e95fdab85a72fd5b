package hooks

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"cachebro/store/wire"
)

const compactEvent = `{"session_id":"s1","cwd":"PROJ","hook_event_name":"SessionStart","source":"compact"}`

// TestPaidRecovery: after a compaction, the recovery text is as long as the session's savings can
// pay for. Facts that the model would not ask for are always included.
func TestPaidRecovery(t *testing.T) {
	for _, c := range []struct {
		name   string
		refuse int // the number of texts that are too expensive
		edit   func(*wire.Recovery)
		want   string // "full", "" or the text
	}{
		{"saved enough", 0, func(*wire.Recovery) {}, "full"},
		{"enough for the names", 1, func(*wire.Recovery) {}, "## cachebro session state\nModified: src/cache.ts, src/mcp.ts\n"},
		{"nothing saved", 2, func(*wire.Recovery) {}, ""},
		{"in the red", 2, func(r *wire.Recovery) {
			r.Changed = []string{"b.go (12:41 by gofmt)", "c.go (12:42 by vi)"}
			r.Failed = "go test ./...\nrm -rf x"
		}, "## cachebro session state\nChanged by others since: b.go (12:41 by gofmt); c.go (12:42 by vi)\nLast failing command: go test ./...rm -rf x\n"},
		{"a deleted file", 1, func(r *wire.Recovery) {
			r.Set.Files = []wire.WorkingFile{{Path: []byte("a\x1b[2J.go"), Deleted: true}}
		}, "## cachebro session state\nModified: \"a\\033[2J.go\" (deleted)\n"},
		{"only read", 1, func(r *wire.Recovery) { r.Set.Files = r.Set.Files[2:] }, ""},
		{"many files", 1, func(r *wire.Recovery) {
			for range 50 {
				r.Set.Files = append(r.Set.Files, wire.WorkingFile{Path: []byte(strings.Repeat("x", 100)), Edits: 1})
			}
		}, "## cachebro session state\nModified: src/cache.ts, src/mcp.ts, " + strings.Repeat("x", 100) + " and 49 more (cachebro working-set)\n"},
		{"a note", 2, func(r *wire.Recovery) {
			r.Notes = []wire.Note{{ID: "not-0a1b2c3d", Kind: "decision", Text: "keep the LRU", Time: at(12, 0)}}
		}, "## cachebro session state\n" + notesSection([]wire.Note{{ID: "not-0a1b2c3d", Kind: "decision", Text: "keep the LRU", Time: at(12, 0)}}, 0)},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := recovery()
			c.edit(&r)
			p := newProject(t)
			refused := 0
			p.serve(answers{
				wire.MRecovery: func(*wire.Request) (any, []byte, error) { return r, nil, nil },
				wire.MSpend: func(q *wire.Request) (any, []byte, error) {
					var sp wire.Spend
					if err := q.Decode(&sp); err != nil {
						return nil, nil, err
					}
					if sp.Credit && refused < c.refuse {
						refused++
						return wire.SpendAnswer{}, nil, nil
					}
					return wire.SpendAnswer{Booked: true}, nil, nil
				},
			})
			want := c.want
			if want == "full" {
				want = recoveryBlock(r, time.Local)
			}
			var out hookedOutput
			if err := json.Unmarshal([]byte(p.run(compactEvent).stdout), &out); err != nil {
				t.Fatal(err)
			}
			if out.Specific.Context != want {
				t.Errorf("got %q, want %q", out.Specific.Context, want)
			}
		})
	}
}

type hookedOutput struct {
	Specific struct {
		Context string `json:"additionalContext"`
	} `json:"hookSpecificOutput"`
}
