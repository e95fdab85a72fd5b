package reads_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cachebro/cmd/cachebro/daemon/bundle"
	"cachebro/cmd/cachebro/daemon/reads"
	"cachebro/scripts/testkit/daemontest"
	"cachebro/scripts/testkit/storetest"
	"cachebro/store"
	"cachebro/store/leaf/spool"
	"cachebro/store/wire"
)

// A session's reads and edits are in its working set immediately. If another session changes one of
// the files later, the working set says so.
func TestWorkingSet(t *testing.T) {
	p := daemontest.New(t)
	ws := reads.OpenWorkingSets(p.Store, p.Source, p.Ingest, p.Attribution, p.Log)
	edit := func(session store.SessionID, name store.Path, text string) {
		c := storetest.Closed(store.OpWrite, name, text)
		c.Actor.Session = session
		storetest.Apply(t, p.Store, c)
	}
	edit("S", "edited.go", "1\n")
	edit("S", "theirs.go", "1\n")
	edit("T", "theirs.go", "2\n")
	for range 3 {
		ws.NoteToolRead("S", "read_file", "read.go")
	}
	touched, err := ws.Of("S")
	if err != nil || len(touched) != 3 {
		t.Fatalf("%+v, %v", touched, err)
	}
	a, _ := daemontest.Ask[wire.WorkingSet](t, ws.Handlers(), wire.MWorkingSet, wire.WorkingSetQuery{Session: "S"})
	files := map[string]wire.WorkingFile{}
	for _, f := range a.Files {
		files[string(f.Path)] = f
	}
	if f := files["read.go"]; f.Reads != 3 || f.Edits != 0 || f.By != "read_file" {
		t.Errorf("%+v", f)
	}
	if f := files["edited.go"]; f.Edits != 1 || f.Others != "" {
		t.Errorf("%+v", f)
	}
	if f := files["theirs.go"]; f.Edits != 1 || f.Others == "" {
		t.Errorf("%+v", f)
	}
}

// A process that reads a file and then writes another makes them a pair, which is stored for the
// next daemon. A process that reads many files at once makes none.
func TestPairsAreKept(t *testing.T) {
	p := daemontest.New(t)
	ws := reads.OpenWorkingSets(p.Store, p.Source, p.Ingest, p.Attribution, p.Log)
	rows := func() (n int) {
		t.Helper()
		if err := p.Store.KV("graph").Scan("", func(string, []byte) error { n++; return nil }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	writes := func(session store.SessionID) {
		c := storetest.Closed(store.OpWrite, "b.go", string(session))
		c.Actor.Session, c.Time = session, time.Now().UnixNano()
		ws.NoteWrites(storetest.Apply(t, p.Store, c))
	}
	ws.NoteReads(&spool.Record{Kind: spool.KindReads, Time: time.Now().UnixNano(), PID: 9, Start: 70, Paths: slices.Repeat([]string{"a.go"}, 100)})
	writes("T")
	if n := rows(); n != 0 {
		t.Errorf("%d pairs of files that the session did not read", n)
	}
	ws.NoteToolRead("S", "read_file", "a.go")
	writes("S")
	if rows() == 0 {
		t.Error("no pair was kept")
	}
}

// The pairs of files follow the rename of their directory.
func TestPairsMoveWithTheirDirectory(t *testing.T) {
	p := daemontest.New(t)
	ws := reads.OpenWorkingSets(p.Store, p.Source, p.Ingest, p.Attribution, p.Log)
	tree := storetest.NewTree()
	apply := func(c store.Change) {
		c.Actor.Session, c.Time = "S", time.Now().UnixNano()
		ws.NoteWrites(storetest.Apply(t, p.Store, c))
	}
	apply(tree.Mkdir("d", storetest.DirMode))
	for i := range 20 {
		apply(tree.Write(store.Path(fmt.Sprintf("d/%d.go", i)), "text"))
	}
	ws.NoteToolRead("S", "read_file", "d/1.go")
	apply(tree.Write("d/2.go", "another text"))
	apply(tree.Rename("d", "e"))
	var rows []string
	err := p.Store.KV("graph").Scan(bundle.PairPrefix, func(key string, val []byte) error {
		if len(val) > 0 {
			rows = append(rows, strings.TrimPrefix(key, bundle.PairPrefix))
		}
		return nil
	})
	if err != nil || !slices.Equal(rows, []string{"e/2.go"}) {
		t.Errorf("pairs of %q, %v", rows, err)
	}
}
