package reads_test

import (
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cachebro/cmd/cachebro/daemon/reads"
	"cachebro/scripts/testkit/daemontest"
	"cachebro/store"
	"cachebro/store/onwire"
	"cachebro/store/readers"
	"cachebro/store/wire"
)

func handlers(t *testing.T, p *daemontest.Project) map[string]wire.Handler {
	t.Helper()
	texts := reads.NewTexts(p.Store)
	shown, err := readers.New(texts, p.Store.KV("shown"), readers.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := shown.Close(); err != nil {
			t.Error(err)
		}
	})
	rd := &reads.Reads{
		Store: p.Store, Source: p.Source, Ingest: p.Ingest, Attribution: p.Attribution, Survey: p.Survey, Shown: shown, Texts: texts, Paths: p.Paths,
		Sets: reads.OpenWorkingSets(p.Store, p.Source, p.Ingest, p.Attribution, p.Log),
	}
	return rd.Handlers()
}

// A reader gets a short answer for a text that it still has, the whole text for one that it does
// not have, and a diff for one that has changed.
func TestReadsOfOneReader(t *testing.T) {
	p := daemontest.New(t)
	h := handlers(t, p)
	text := strings.Repeat("a line of some length, so that a short answer is shorter\n", 40)
	read := func(connection string) (wire.ReadAnswer, string) {
		t.Helper()
		a, body := daemontest.Ask[wire.ReadAnswer](t, h, wire.MRead, wire.ReadRequest{Path: []byte("a.txt"), Reader: wire.Reader{Connection: connection}, Tool: "read_file"})
		return a, string(body)
	}
	p.Write("a.txt", text)
	if a, body := read("1"); !strings.Contains(body, text) {
		t.Errorf("%+v: %q", a, body)
	}
	if a, body := read("1"); a.Kind == wire.ReadFull || strings.Contains(body, "a line") {
		t.Errorf("the same once more: %+v: %q", a, body)
	}
	if a, body := read("2"); !strings.Contains(body, text) {
		t.Errorf("another reader: %+v: %q", a, body)
	}
	p.Write("a.txt", text+"one line more\n")
	if a, body := read("1"); a.Kind == wire.ReadFull || !strings.Contains(body, "one line more") {
		t.Errorf("after a change: %+v: %q", a, body)
	}
	if _, _, err := daemontest.Try[wire.ReadAnswer](t, h, wire.MRead, wire.ReadRequest{Path: []byte("none.txt")}); !errors.Is(err, wire.ErrNotFound) {
		t.Errorf("%v", err)
	}
	if _, _, err := daemontest.Try[wire.ReadAnswer](t, h, wire.MRead, wire.ReadRequest{Path: []byte("a.txt"), Offset: -1}); !errors.Is(err, wire.ErrBadRequest) {
		t.Errorf("%v", err)
	}
}

// A request that is refused may also say that the context lost something. That was ignored, so the
// next read of a lost text was answered with "unchanged".
func TestRefusedReadReportsALoss(t *testing.T) {
	p := daemontest.New(t)
	h := handlers(t, p)
	p.Write("a.txt", strings.Repeat("a line of some length, so that a short answer is shorter\n", 40))
	reader := wire.Reader{Session: "S"}
	read := func() string {
		a, _ := daemontest.Ask[wire.ReadAnswer](t, h, wire.MRead, wire.ReadRequest{Path: []byte("a.txt"), Reader: reader})
		return a.Kind
	}
	if first, second := read(), read(); first != wire.ReadFull || second != wire.ReadUnchanged {
		t.Fatalf("%s, then %s", first, second)
	}
	read()
	if _, _, err := daemontest.Try[wire.ReadAnswer](t, h, wire.MRead, wire.ReadRequest{Path: []byte("a.txt"), Reader: reader, Context: wire.ContextFell, Offset: -1}); !errors.Is(err, wire.ErrBadRequest) {
		t.Fatal(err)
	}
	if kind := read(); kind != wire.ReadFull {
		t.Errorf("after the loss: %s", kind)
	}
}

// A reader's own edit counts as shown: the next read reports nothing new.
func TestOwnEditIsKnown(t *testing.T) {
	p := daemontest.New(t)
	h := handlers(t, p)
	before := strings.Repeat("a line of some length, so that a short answer is shorter\n", 40)
	after := strings.Replace(before, "some", "great", 1)
	reader := wire.Reader{Connection: "1"}
	p.Write("a.txt", before)
	daemontest.Ask[wire.ReadAnswer](t, h, wire.MRead, wire.ReadRequest{Path: []byte("a.txt"), Reader: reader, Tool: "read_file"})
	p.Write("a.txt", after)
	if _, _, err := daemontest.TryBody[wire.Empty](t, h, wire.MOwnEdit, wire.OwnEdit{Path: []byte("a.txt"), Reader: reader, Before: onwire.Hash(sha256.Sum256([]byte(before))), Old: "some", New: "great", Tool: "edit"}, []byte(after)); err != nil {
		t.Fatal(err)
	}
	a, body := daemontest.Ask[wire.ReadAnswer](t, h, wire.MRead, wire.ReadRequest{Path: []byte("a.txt"), Reader: reader, Tool: "read_file"})
	if a.Kind == wire.ReadFull || strings.Contains(string(body), "great") {
		t.Errorf("%+v: %q", a, body)
	}
}

// A reader that was shown a file under an earlier name is recognised if that name is among the
// file's newest versions. A long log is not read completely to find the name.
func TestRenamedFileIsKnown(t *testing.T) {
	p := daemontest.New(t)
	h := handlers(t, p)
	text := strings.Repeat("a line of some length, so that a short answer is shorter\n", 40)
	readBy := func(reader, name string) wire.ReadAnswer {
		t.Helper()
		a, _ := daemontest.Ask[wire.ReadAnswer](t, h, wire.MRead, wire.ReadRequest{Path: []byte(name), Reader: wire.Reader{Connection: reader}, Tool: "read_file"})
		return a
	}
	read := func(name string) wire.ReadAnswer { t.Helper(); return readBy("1", name) }
	apply := func(c store.Change) {
		t.Helper()
		if _, err := p.Ingest.Append(t.Context(), []store.Change{c}, func() bool { return true }); err != nil {
			t.Fatal(err)
		}
	}
	moved := func(from, to string) {
		t.Helper()
		if err := os.Rename(filepath.Join(p.Root, from), filepath.Join(p.Root, to)); err != nil {
			t.Fatal(err)
		}
		v, _, err := p.Store.Current(store.Path(from))
		if err != nil {
			t.Fatal(err)
		}
		apply(store.Change{Op: store.OpRename, Path: store.Path(from), Path2: store.Path(to), Stat: v.Stat, Time: v.Time + 1})
	}
	p.Write("a.txt", text)
	p.Write("long.txt", text)
	read("a.txt")
	read("long.txt")
	moved("a.txt", "b.txt")
	if a := read("b.txt"); a.Kind == wire.ReadFull {
		t.Errorf("not known under its new name: %+v", a)
	}
	// A file that has got the name of another one is not that other file.
	p.Write("first.txt", text)
	readBy("2", "first.txt")
	moved("first.txt", "second.txt")
	p.Write("first.txt", text+"another file\n")
	read("first.txt")
	if a := read("second.txt"); a.Kind != wire.ReadFull {
		t.Errorf("another file was shown under its former name: %+v", a)
	}
	moved("long.txt", "longer.txt")
	v, _, err := p.Store.Current("longer.txt")
	if err != nil {
		t.Fatal(err)
	}
	for i := range reads.NamesWithin {
		st := v.Stat
		st.Mode ^= uint32(i&1) << 6
		apply(store.Change{Op: store.OpChmod, Path: "longer.txt", Stat: st, Time: v.Time + int64(i)})
	}
	if a := read("longer.txt"); a.Kind != wire.ReadFull {
		t.Errorf("all of its versions were read: %+v", a)
	}
}
