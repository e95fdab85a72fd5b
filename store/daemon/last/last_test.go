package last

import (
	"errors"
	"strings"
	"testing"

	"cachebro/store"
	"cachebro/store/storetest"
	"cachebro/store/wire"
)

// "last" is the newest that changed something; any other name is itself.
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
	if _, err := Prompt(s, "log", "", "", "last"); !errors.Is(err, wire.ErrNotFound) || !strings.Contains(err.Error(), "no prompt changed anything") {
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
	has := func(s store.Session) (bool, error) { return s.ID == "old", nil }
	if got, err := SessionWith(s, "last", has); err != nil || got != "old" {
		t.Errorf("%q, %v", got, err)
	}
}
