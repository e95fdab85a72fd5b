package shown_test

import (
	"context"
	"testing"
	"time"

	"cachebro/store"
	"cachebro/store/shown"
	"cachebro/store/shown/conformance"
)

// Sixty thousand tokens after its text a base counts only with the client's word
// that its context lost nothing, and only until it has lost something.
func TestAgedBases(t *testing.T) {
	kv := &disk{m: map[string][]byte{}}
	p := newProject(t, kv)
	h := p.put(conformance.Text(300))
	id := store.Reader{Session: "s", Agent: "a"}
	ask := func(check bool) shown.Answer {
		t.Helper()
		a, err := p.shown.Decide(context.Background(), shown.Request{Reader: id, Known: true, Path: "f", Hash: h, Check: check,
			Content: func() ([]byte, error) { return p.Content(h) }})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	want := func(what, kind string, check bool) {
		t.Helper()
		if a := ask(check); a.Kind != kind {
			t.Errorf("%s: %s, want %s", what, a.Kind, kind)
		}
	}
	aged := func() bool { return p.shown.Aged(id, []store.Path{"f"}) }
	tell := func(name string) { p.shown.Event(shown.Event{Reader: id, Name: name}) }
	want("the first read, which may be checked", shown.Full, true)
	want("a re-read", shown.Unchanged, true)
	p.shown.Delivered(id, 59_000)
	if aged() {
		t.Error("aged before its time")
	}
	p.shown.Delivered(id, 2_000)
	if !aged() {
		t.Error("not aged after 61,000 tokens")
	}
	want("asked twice needs no check", shown.Full, true)

	p.shown.Delivered(id, 61_000)
	want("an old base", shown.Aged, true)
	want("the same, as nothing was recorded", shown.Aged, true)
	tell("held")
	if aged() {
		t.Error("aged although it is held")
	}
	want("with the word that it is held", shown.Unchanged, false)

	p.shown.Delivered(id, 61_000)
	tell("held")
	p.shown.Delivered(id, 61_000)
	tell("fell")
	if aged() {
		t.Error("a check could still help, although something was lost")
	}
	want("after the context lost something", shown.Full, true)
	p.shown.Delivered(id, 61_000)
	want("what came after the loss can be checked again", shown.Aged, true)
	tell("held")
	want("and is held", shown.Unchanged, false)

	// Over a restart nobody knows what happened in between.
	if err := p.shown.Close(); err != nil {
		t.Fatal(err)
	}
	p.open(t, kv)
	p.shown.Delivered(id, 61_000)
	tell("held")
	want("an old base after a restart", shown.Full, true)

	p.shown.Delivered(id, 61_000)
	p.Advance(t, 2*time.Hour)
	want("no word helps against idle hours", shown.Full, true)
}
