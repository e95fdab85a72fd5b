package daemon

import (
	"strings"
	"testing"

	"cachebro/store/leaf/event"
	"cachebro/store/leaf/spool"
	"cachebro/store/wire"
)

// TestSessionHits: an earlier session worked on the subject of a prompt. The session is listed
// after the file, and its id can be used to see it. The asking session itself is not a hit.
func TestSessionHits(t *testing.T) {
	p := newProject(t)
	p.start()
	p.attach()
	h := p.dial("hook")
	p.append(&spool.Record{Kind: spool.KindProcess, Time: now(), PID: 4000001, Start: 77, Comm: "sh", Session: map[string]string{"CLAUDE_CODE_SESSION_ID": "S"}})
	ask[wire.SessionAnswer](p, h, wire.MSession, wire.SessionEvent{Session: "S", Event: "prompt", Prompt: "P1"})
	p.through(event.OpWrite, "scan/harbour.go", "package scan\n\nfunc Moor() {}\n", func(r *spool.Record) { r.PID, r.Start = 4000001, 77 })
	p.through(event.OpWrite, "other.go", "package other\n", nil)
	question := wire.SearchQuery{Pattern: "how does the harbour moor?", Mode: wire.SearchPrompt, Session: "T", Limit: 10}
	var a wire.SearchAnswer
	eventually(t, "the file and the session are found", func() bool {
		a = ask[wire.SearchAnswer](p, h, wire.MSearch, question)
		return len(a.Hits) == 2
	})
	if f, s := a.Hits[0], a.Hits[1]; string(f.Path) != "scan/harbour.go" || s.Type != "session" || s.Title != "edited harbour.go" || !strings.HasPrefix(s.ID, "ses-") {
		t.Fatalf("%+v", a.Hits)
	}
	got := ask[wire.SearchAnswer](p, h, wire.MSearch, wire.SearchQuery{Pattern: a.Hits[1].ID})
	if got.How != wire.SearchID || len(got.Hits) != 1 || !strings.Contains(got.Hits[0].Body, "M scan/harbour.go (1 edits)") || !strings.Contains(got.Hits[0].Body, "prompt P1") {
		t.Errorf("%+v", got)
	}
	question.Session = "S"
	if a = ask[wire.SearchAnswer](p, h, wire.MSearch, question); len(a.Hits) != 1 {
		t.Errorf("a session gets itself as a hit: %+v", a.Hits)
	}
}
