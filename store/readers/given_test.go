package readers_test

import (
	"testing"

	"cachebro/scripts/testkit/conformance"
	"cachebro/store"
	"cachebro/store/readers"
)

// Lines that cachebro wrote and a session received are found for this session and no other one,
// even after a compaction and a restart. If the session is unknown, the lines of all sessions
// count.
func TestGivenOwnWords(t *testing.T) {
	kv := &disk{m: map[string][]byte{}}
	p := newProject(t, kv)
	r := p.Reader(t).(*direct)
	p.Write(t, "f", conformance.Text(100))
	r.Read(t, conformance.Read{Path: "f"})
	stub := r.Read(t, conformance.Read{Path: "f"}).Text
	p.shown.GiveOwnWords(r.id, []string{"[cachebro: 9 lines]"})
	p.shown.GiveOwnWords(store.Reader{Session: readers.ConnectionSession + "1"}, []string{"[cachebro: 7 lines]"})
	check := func(when string) {
		t.Helper()
		for _, c := range []struct {
			session store.SessionID
			known   bool
			line    string
			want    bool
		}{
			{r.id.Session, true, stub, true},
			{r.id.Session, true, " [cachebro: 9 lines]", true},
			{r.id.Session, true, "[cachebro: 7 lines]", true}, // the connection may belong to the session
			{r.id.Session, true, "[cachebro: 8 lines]", false},
			{"other", true, stub, false},
			{"", false, stub, true},
		} {
			if got := p.shown.GivenOwnWords(c.session, c.known, []string{"x", c.line}); (got == c.line) != c.want || !c.want && got != "" {
				t.Errorf("%s: %s %q: %q", when, c.session, c.line, got)
			}
		}
	}
	check("given")
	p.shown.Event(readers.Event{Reader: r.id, Name: "postcompact"})
	check("after a compaction")
	if err := p.shown.Close(); err != nil {
		t.Fatal(err)
	}
	p.open(t, kv)
	check("after a restart")
}
