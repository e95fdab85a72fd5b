package versions

import (
	"errors"
	"strings"
	"testing"

	"cachebro/scripts/testkit/storetest"
	"cachebro/store"
	"cachebro/store/wire"
)

// "last" is the newest session or prompt that changed something. Any other text is a name or the
// beginning of one.
func TestLast(t *testing.T) {
	s := storetest.Fresh(t)
	if _, err := Session(s, "last"); !errors.Is(err, wire.ErrNotFound) {
		t.Errorf("no session: %v", err)
	}
	if _, err := Prompt(s, "log", "", "", "last"); !errors.Is(err, wire.ErrNotFound) {
		t.Errorf("no prompt: %v", err)
	}
	if got, err := Session(s, "other"); err != nil || got != "other" {
		t.Errorf("%q, %v", got, err)
	}
	at := storetest.Now().UnixNano()
	for i, id := range []store.SessionID{"old", "wrote", "reader"} {
		if err := s.Sessions.Put(store.Session{ID: id, Started: at + int64(i), Last: at + int64(i)}); err != nil {
			t.Fatal(err)
		}
	}
	for i, id := range []string{"P1", "P2"} {
		if err := s.Sessions.PutPrompt(store.Prompt{ID: id, Session: "wrote", Time: at + int64(i), Seq: s.Seq()}); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := Session(s, "last"); err != nil || got != "reader" {
		t.Errorf("none changed anything, so the newest: %q, %v", got, err)
	}
	if _, err := Prompt(s, "log", "", "", "last"); !errors.Is(err, wire.ErrNotFound) || !strings.Contains(err.Error(), "no prompt has changed anything") {
		t.Errorf("%v", err)
	}
	write := func(prompt string) {
		c := storetest.Closed(store.OpWrite, "a", prompt)
		c.Actor.Session, c.Actor.Prompt = "wrote", prompt
		storetest.Apply(t, s, c)
	}
	write("P1")
	if got, err := Session(s, "last"); err != nil || got != "wrote" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := Prompt(s, "undo", "", "wrote", "last"); !errors.Is(err, wire.ErrNotFound) || !strings.Contains(wire.Hint(err), "cachebro undo --prompt P1 ") {
		t.Errorf("the newest prompt changed nothing: %v (%s)", err, wire.Hint(err))
	}
	write("P2")
	if got, err := Prompt(s, "undo", "", "wrote", "last"); err != nil || got != "P2" {
		t.Errorf("%q, %v", got, err)
	}
	for _, id := range []string{"21daf5b3-ce88", "21daf5b4-ce88", "5f6e7d8c"} {
		if err := errors.Join(s.Sessions.Put(store.Session{ID: store.SessionID(id), Started: 1}), s.Sessions.PutPrompt(store.Prompt{ID: "p" + id, Session: store.SessionID(id), Time: 1})); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"21daf5b3": "21daf5b3-ce88", "21daf5b4-ce88": "21daf5b4-ce88", "5f6e7d8c": "5f6e7d8c", "5f6e": "5f6e7d8c", "5": "5f6e7d8c", "unknown": "unknown", "": ""} {
		if got, err := Session(s, name); err != nil || string(got) != want {
			t.Errorf("session %q: %q, %v", name, got, err)
		}
	}
	for name, want := range map[string]string{"p21daf5b3": "p21daf5b3-ce88", "p5f6e7d8c": "p5f6e7d8c", "p5": "p5f6e7d8c", "unknown": "unknown", "": ""} {
		if got, err := Prompt(s, "undo", "", "", name); err != nil || got != want {
			t.Errorf("prompt %q: %q, %v", name, got, err)
		}
	}
	if _, err := Session(s, "21daf5b"); !errors.Is(err, wire.ErrBadRequest) {
		t.Errorf("of two sessions: %v", err)
	}
	if _, err := Prompt(s, "undo", "", "", "p21daf5"); !errors.Is(err, wire.ErrBadRequest) {
		t.Errorf("of two prompts: %v", err)
	}
	if _, err := Session(s, "21"); err == nil || !strings.Contains(err.Error(), "21daf5b3-ce88, 21daf5b4-ce88 begin with it") {
		t.Errorf("the candidates are not named: %v", err)
	}
	// Changes that no client reported are found in the versions.
	c := storetest.Closed(store.OpWrite, "a", "x")
	c.Actor.Session, c.Actor.Prompt = "7a41b2c3-ce88", "q77"
	storetest.Apply(t, s, c)
	if got, err := Session(s, "7a41"); err != nil || got != "7a41b2c3-ce88" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := Prompt(s, "undo", "", "", "q7"); err != nil || got != "q77" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := Session(s, "last"); err != nil || got != "7a41b2c3-ce88" {
		t.Errorf("the newest is one that no client reported: %q, %v", got, err)
	}
	has := func(s store.Session) (bool, error) { return s.ID == "old", nil }
	if got, err := SessionWith(s, "last", has); err != nil || got != "old" {
		t.Errorf("%q, %v", got, err)
	}
}
