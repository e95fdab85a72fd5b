package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cachebro/store/leaf/event"
	"cachebro/store/leaf/spool"
	"cachebro/store/wire"
)

// TestNotes: notes are listed, found by their words, by id and for a prompt, and shown after a
// compaction. A note follows its file, says when the file is gone, and survives restarts,
// collections and reindexing.
func TestNotes(t *testing.T) {
	p := newProject(t)
	p.start()
	p.attach()
	c := p.dial("cli")
	p.through(event.OpWrite, "src/harbour.go", "package src\n\nfunc Moor() {}\n", nil)
	add := func(q wire.NotesRequest) wire.Note {
		t.Helper()
		q.Do = "add"
		a := ask[wire.NotesAnswer](p, c, wire.MNotes, q)
		if len(a.Notes) != 1 || !a.Added {
			t.Fatalf("%+v", a)
		}
		return a.Notes[0]
	}
	ask[wire.SessionAnswer](p, c, wire.MSession, wire.SessionEvent{Session: "S", Event: "start", Source: "startup"})
	own := add(wire.NotesRequest{Text: "Mooring lines are checked twice\nsee the storm of 2021", Kind: "decision", Path: []byte(p.root + "/src/harbour.go"), Reader: wire.Reader{Session: "S"}})
	other := add(wire.NotesRequest{Text: "release on Friday", Path: []byte("docs")})
	if string(own.Path) != "src/harbour.go" || own.Session != "S" || own.By != "cli" {
		t.Fatalf("%+v", own)
	}
	list := func(q wire.NotesRequest) (ids string) {
		t.Helper()
		q.Do = "list"
		for _, n := range ask[wire.NotesAnswer](p, c, wire.MNotes, q).Notes {
			ids += n.ID + " "
		}
		return strings.TrimSpace(ids)
	}
	find := func(q wire.SearchQuery) wire.SearchAnswer {
		t.Helper()
		return ask[wire.SearchAnswer](p, c, wire.MSearch, q)
	}
	check := func(where string) {
		t.Helper()
		for got, want := range map[string]string{
			list(wire.NotesRequest{}):                              other.ID + " " + own.ID,
			"kind " + list(wire.NotesRequest{Kind: "note"}):        "kind " + other.ID,
			"path " + list(wire.NotesRequest{Path: []byte("src")}): "path " + own.ID,
		} {
			if got != want {
				t.Errorf("%s: the list is %s, want %s", where, got, want)
			}
		}
		for name, q := range map[string]wire.SearchQuery{
			"a line":         {Pattern: "storm of", Kind: "note"},
			"an expression":  {Pattern: "^see .*2021$", Regex: true, Kind: "note", Mode: wire.SearchExact},
			"other words":    {Pattern: "who checked the mooring?", Kind: "note"},
			"below its path": {Pattern: "mooring", Kind: "note", Path: []byte("src")},
			"its id":         {Pattern: own.ID},
		} {
			a := find(q)
			if len(a.Hits) != 1 || a.Hits[0].ID != own.ID || a.Hits[0].Type != "note" || a.Hits[0].Note == nil || a.Hits[0].Note.Text != own.Text {
				t.Errorf("%s: by %s: %+v", where, name, a)
			}
		}
		if a := find(wire.SearchQuery{Pattern: "mooring", Kind: "note", Path: []byte("docs")}); len(a.Hits) != 0 {
			t.Errorf("%s: found below another path: %+v", where, a)
		}
		r := ask[wire.Recovery](p, c, wire.MRecovery, wire.SessionQuery{Session: "S"})
		if len(r.Notes) != 1 || r.Notes[0].ID != own.ID || r.MoreNotes != 1 {
			t.Errorf("%s: recovery tells %+v and %d more", where, r.Notes, r.MoreNotes)
		}
	}
	check("at first")
	eventually(t, "a prompt finds the file and the note", func() bool {
		a := find(wire.SearchQuery{Pattern: "how are the mooring lines checked?", Mode: wire.SearchPrompt, Limit: 10})
		for _, h := range a.Hits {
			if h.ID == own.ID && h.Title == "decision: Mooring lines are checked twice" {
				return true
			}
		}
		return false
	})
	if _, err := c.Call(context.Background(), wire.MSearch, wire.SearchQuery{Pattern: "x", Kind: "note", Mode: wire.SearchSymbols}, nil, nil); !errors.Is(err, wire.ErrBadRequest) {
		t.Error(err)
	}
	for _, q := range []wire.NotesRequest{{Do: "add"}, {Do: "add", Text: "x", Path: []byte("../x")}, {Do: "remove", IDs: []string{"not-00000000"}}, {Do: "burn"}} {
		if _, err := c.Call(context.Background(), wire.MNotes, q, nil, nil); err == nil {
			t.Errorf("%+v is taken", q)
		}
	}

	ask[wire.StoreAnswer](p, c, wire.MIndex, wire.IndexRequest{Do: "full"})
	ask[wire.StoreAnswer](p, c, wire.MStore, wire.StoreRequest{Do: "prune", Keep: 1})
	ask[wire.StoreAnswer](p, c, wire.MStore, wire.StoreRequest{Do: "gc"})
	p.end()
	p.start()
	p.attach()
	c = p.dial("cli")
	check("after a restart")

	if err := os.Rename(filepath.Join(p.root, "src/harbour.go"), filepath.Join(p.root, "src/port.go")); err != nil {
		t.Fatal(err)
	}
	stat := p.statOf("src/port.go")
	p.append(&spool.Record{Kind: spool.KindVersion, Time: now(), Op: event.OpRename, Path: "src/harbour.go", Path2: "src/port.go", Node: 1, Stat: stat})
	eventually(t, "the note follows its file", func() bool {
		n := ask[wire.NotesAnswer](p, c, wire.MNotes, wire.NotesRequest{Do: "list", Kind: "decision"}).Notes[0]
		return string(n.Path) == "src/port.go" && string(n.Was) == "src/harbour.go" && !n.Gone
	})
	if err := os.Remove(filepath.Join(p.root, "src/port.go")); err != nil {
		t.Fatal(err)
	}
	p.append(&spool.Record{Kind: spool.KindVersion, Time: now(), Op: event.OpUnlink, Path: "src/port.go", Node: 1, LastName: true, Stat: stat})
	eventually(t, "the note says that its file is gone", func() bool {
		return ask[wire.NotesAnswer](p, c, wire.MNotes, wire.NotesRequest{Do: "list", Kind: "decision"}).Notes[0].Gone
	})
	if a := ask[wire.NotesAnswer](p, c, wire.MNotes, wire.NotesRequest{Do: "remove", IDs: []string{own.ID, other.ID}}); len(a.Notes) != 2 {
		t.Errorf("%+v", a)
	}
	if a := find(wire.SearchQuery{Pattern: own.ID}); len(a.Hits) != 0 && a.How == wire.SearchID {
		t.Errorf("what was removed is found: %+v", a)
	}
}
