package portable

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"cachebro/scripts/testkit/storetest"
	"cachebro/store"
	"cachebro/store/content"
	"cachebro/store/wire"

	"github.com/klauspost/compress/zstd"
)

var here = Options{Program: "1", Root: "/p", Buckets: []string{"notes"}}

func exported(t interface{ Fatal(...any) }, s *store.Store) []byte {
	var b bytes.Buffer
	if _, err := Export(context.Background(), s, &b, here); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func plainStream(t interface{ Fatal(...any) }, b []byte) []byte {
	z, err := zstd.NewReader(bytes.NewReader(b[len(streamMagic):]))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	out, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func imported(t testing.TB, b []byte) *store.Store {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	if _, err := Import(context.Background(), dir, bytes.NewReader(b), here, storetest.Options()); err != nil {
		t.Fatal(err)
	}
	return storetest.Open(t, dir, storetest.Options())
}

// A stream contains the plans that a redo needs. It does not contain plans that a client is still
// carrying out, the processes of sessions, or KV sets that the options do not name.
func TestExportLeavesOut(t *testing.T) {
	s := storetest.Fresh(t)
	ctx := context.Background()
	storetest.Apply(t, s, storetest.Closed(store.OpCreate, "f", "one"), storetest.Closed(store.OpWrite, "f", "two"))
	done, open := store.Plan{Kind: store.PlanUndo, Returns: []store.Return{{Path: "f", Was: 2, Back: 1}}}, store.Plan{Kind: store.PlanUndo, Steps: []store.Step{{Do: store.DoDelete, Path: "f"}}}
	for _, p := range []*store.Plan{&done, &open} {
		if err := s.Journal.Begin(ctx, p, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.Journal.Finish(done.ID, nil), s.Journal.Done(open.ID, 0), s.Sessions.Put(store.Session{ID: "s", PID: 7, PStart: 8, Last: 9}),
		s.KV("notes").Set("n", []byte("yes")), s.KV("shown").Set("n", []byte("no"))); err != nil {
		t.Fatal(err)
	}
	c := imported(t, exported(t, s))
	if plans, err := c.Journal.Plans(); err != nil || len(plans) != 1 || plans[0].ID != done.ID {
		t.Errorf("plans %+v, %v", plans, err)
	}
	if p, err := c.Journal.Plan(done.ID); err != nil || len(p.Returns) != 1 {
		t.Errorf("the finished plan: %+v, %v", p, err)
	}
	if v, ok, err := c.Sessions.Get("s"); err != nil || !ok || v.PID != 0 || v.PStart != 0 || v.Ended != 9 {
		t.Errorf("session %+v %v %v", v, ok, err)
	}
	if _, ok, _ := c.KV("notes").Get("n"); !ok {
		t.Error("a note stayed behind")
	}
	if _, ok, _ := c.KV("shown").Get("n"); ok {
		t.Error("what readers were shown came along")
	}
	if text := storetest.Content(t, c, "f"); text != "two" {
		t.Errorf("f holds %q", text)
	}
}

// However the file is damaged, the import fails and leaves nothing behind.
func TestImportDamaged(t *testing.T) {
	s := storetest.Fresh(t)
	random := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 300)
	for i := range 20 {
		for j := range noise {
			noise[j] = byte(random.Uint32())
		}
		storetest.Apply(t, s, storetest.Closed(store.OpWrite, store.Path(fmt.Sprint("f", i%4)), fmt.Sprintf("%d %x", i, noise)))
	}
	whole := exported(t, s)
	try := func(what string, b []byte) {
		t.Helper()
		dir := filepath.Join(t.TempDir(), "store")
		_, err := Import(context.Background(), dir, bytes.NewReader(b), here, storetest.Options())
		if !errors.Is(err, ErrStream) && !errors.Is(err, store.ErrNewer) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := os.Lstat(dir); err == nil {
			t.Errorf("%s: a store was left behind", what)
		}
		if _, err := Check(context.Background(), bytes.NewReader(b)); err == nil {
			t.Errorf("%s: passes the check", what)
		}
	}
	for i := range 12 {
		n := i * len(whole) / 12
		try(fmt.Sprintf("cut at %d", n), whole[:n])
		b := bytes.Clone(whole)
		b[n] ^= 0x10
		try(fmt.Sprintf("byte %d changed", n), b)
	}
	try("one byte short", whole[:len(whole)-1])
	try("something behind it", append(bytes.Clone(whole), "more"...))
	try("twice", append(bytes.Clone(whole), whole...))
	try("another file", []byte(strings.Repeat("text\n", 100)))
	try("a later format", append([]byte("cachebro-history 2\n"), whole[len(streamMagic):]...))

	// These streams are complete and well-formed, but their records are wrong.
	v := store.Version{Path: "x", Op: store.OpWrite, Blob: store.Hash{1}, Stat: store.Stat{Mode: storetest.FileMode}}
	for what, fill := range map[string]func(*streamWriter, *Totals){
		"no content": func(w *streamWriter, c *Totals) { w.put(store.RecordVersion, seqKey(1), encode(&v)); c.Versions++ },
		"false hash": func(w *streamWriter, c *Totals) {
			w.put(streamContent, v.Blob[:], []byte("text"))
			c.Contents++
			c.Bytes += 4
		},
		"false amounts": func(w *streamWriter, c *Totals) { c.Versions = 3 },
		"unknown kind":  func(w *streamWriter, c *Totals) { w.put('?', []byte("k"), nil) },
		"a second head": func(w *streamWriter, c *Totals) { w.put(streamHeadKind, nil, encode(&streamHead{})) },
		"store's state": func(w *streamWriter, c *Totals) { w.put('m', []byte("state"), encode(&store.State{Seq: 9})) },
		"same version again": func(w *streamWriter, c *Totals) {
			o := store.Version{Path: "x", Op: store.OpMkdir, Stat: store.Stat{Mode: storetest.DirMode}}
			w.put(store.RecordVersion, seqKey(2), encode(&o))
			w.put(store.RecordVersion, seqKey(2), encode(&o))
			c.Versions += 2
		},
		"a path with a NUL": func(w *streamWriter, c *Totals) {
			w.put(store.RecordVersion, seqKey(2), encode(&store.Version{Path: "x\x00y", Op: store.OpMkdir}))
			c.Versions++
		},
	} {
		var b bytes.Buffer
		w, err := newStreamWriter(&b, streamMagic, streamWindow)
		if err != nil {
			t.Fatal(err)
		}
		var c Totals
		err = w.put(streamHeadKind, nil, encode(&streamHead{}))
		fill(w, &c)
		if err = errors.Join(err, w.end(c)); err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "store")
		if _, err := Import(context.Background(), dir, &b, here, storetest.Options()); err == nil {
			t.Errorf("%s: imported", what)
		}
		if _, err := os.Lstat(dir); err == nil {
			t.Errorf("%s: a store was left behind", what)
		}
	}
}

// If the reader fails or the user cancels, the import returns the reader's error and leaves nothing
// behind.
func TestImportCutShort(t *testing.T) {
	s := storetest.Fresh(t)
	storetest.Apply(t, s, storetest.Closed(store.OpWrite, "f", "text"))
	whole := exported(t, s)
	dir := filepath.Join(t.TempDir(), "store")
	broken := errors.New("the disk is gone")
	r := io.MultiReader(bytes.NewReader(whole[:len(whole)/2]), errReader{broken})
	if _, err := Import(context.Background(), dir, r, here, storetest.Options()); !errors.Is(err, broken) {
		t.Errorf("a failing disk: %v", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if _, err := Import(ctx, dir, bytes.NewReader(whole), here, storetest.Options()); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := os.Lstat(dir); err == nil {
		t.Error("a store was left behind")
	}
	if _, err := Import(context.Background(), t.TempDir(), bytes.NewReader(whole), here, storetest.Options()); err == nil {
		t.Error("imported over a directory that is there")
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

// A running export neither stops other writes nor contains half of a batch. Each batch in this test
// keeps two files equal.
func TestExportWhileStoring(t *testing.T) {
	s := storetest.Fresh(t)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	at := 0
	pair := func() {
		at++
		text := fmt.Sprint("text ", at)
		storetest.Apply(t, s, storetest.Closed(store.OpWrite, "a", text), storetest.Closed(store.OpWrite, "b", text))
	}
	pair()
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				pair()
			}
		}
	})
	var streams [][]byte
	for range 5 {
		var b bytes.Buffer
		if _, err := Export(context.Background(), s, &b, here); err != nil {
			t.Error(err)
		}
		streams = append(streams, b.Bytes())
	}
	close(stop)
	wg.Wait()
	for _, b := range streams {
		c := imported(t, b)
		if x, y := storetest.Content(t, c, "a"), storetest.Content(t, c, "b"); x != y {
			t.Errorf("a holds %q, b %q", x, y)
		}
	}
}

// A larger history that was packed and pruned before is packed after the import too.
func TestImportIsPacked(t *testing.T) {
	s := storetest.Fresh(t)
	random := rand.New(rand.NewPCG(3, 4))
	lines := make([]string, 400)
	for i := range lines {
		lines[i] = fmt.Sprintf("line %d %x", i, random.Uint64())
	}
	for i := range 300 {
		lines[random.IntN(len(lines))] = fmt.Sprintf("changed %d %x", i, random.Uint64())
		storetest.Apply(t, s, storetest.Closed(store.OpWrite, store.Path(fmt.Sprint("f", i%3, ".go")), strings.Join(lines, "\n")))
	}
	var old []uint64
	err := s.Superseded(t.Context(), 5, func(v store.Outdated) bool { old = append(old, v.Seq); return true })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.DropContents(t.Context(), old, "pruned"); err != nil {
		t.Fatal(err)
	}
	_, err = s.Contents().Sweep(t.Context(), content.WasteShared, func(add func(store.Hash)) error { return s.References(t.Context(), nil, add) })
	if err = errors.Join(err, packed(t.Context(), s)); err != nil {
		t.Fatal(err)
	}
	c := imported(t, exported(t, s))
	if have, most := c.Stats().BlobBytes, s.Stats().BlobBytes*5/4; have > most {
		t.Errorf("the contents take %d bytes, %d in the original", have, s.Stats().BlobBytes)
	}
	var all []store.Version
	for _, st := range []*store.Store{s, c} {
		vs, err := st.Since(0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range vs {
			if _, err := st.Content(v.Blob); err != nil && v.NoContent != "pruned" {
				t.Fatal(err)
			}
		}
		for i := range vs {
			if vs[i].Foreign != (st == c) {
				t.Errorf("version %d: foreign %v", vs[i].Seq, vs[i].Foreign)
			}
			vs[i].Foreign = false
		}
		all = append(all, vs...)
	}
	if n := len(all) / 2; !slices.Equal(all[:n], all[n:]) {
		t.Error("other versions")
	}
}

func seqKey(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

func partKey(plan string, n uint32) []byte {
	return binary.BigEndian.AppendUint32(append([]byte(plan), 0), n)
}

// hostile returns a stream that Export would never write.
func hostile(t *testing.T, put func(w *streamWriter) Totals) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := newStreamWriter(&b, streamMagic, streamWindow)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.put(streamHeadKind, nil, encode(&streamHead{Program: "1", Root: "/p"})); err != nil {
		t.Fatal(err)
	}
	if err := w.end(put(w)); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// An import used to accept unfinished plans, and the next mount carried them out unasked. So a file
// from somebody else could write a git hook. Now only plans that have ended are imported, and no
// part or step of a missing plan.
func TestImportTakesNoOpenPlan(t *testing.T) {
	part := store.Plan{Steps: []store.Step{{N: 1, Do: store.DoDelete, Path: "a"}}, Returns: []store.Return{{Path: "a"}}}
	head := func(id string, finished int64) []byte {
		return encode(&store.Plan{ID: id, Kind: store.PlanUndo, Begun: 5, Finished: finished})
	}
	b := hostile(t, func(w *streamWriter) (c Totals) {
		for _, r := range []struct {
			kind     byte
			key, val []byte
		}{
			{store.RecordPlan, []byte("open"), head("open", 0)}, {store.RecordPlan, partKey("open", 0), encode(&part)}, {store.RecordPlanStep, partKey("open", 1), nil},
			{store.RecordPlan, []byte("ended"), head("ended", 6)}, {store.RecordPlan, partKey("ended", 0), encode(&part)}, {store.RecordPlanStep, partKey("ended", 1), nil},
			{store.RecordPlan, partKey("headless", 0), encode(&part)}, {store.RecordPlanStep, partKey("headless", 1), nil},
			{store.RecordPlan, []byte("named"), head("other", 7)}, {store.RecordPlan, partKey("other", 0), encode(&part)},
		} {
			if err := w.put(r.kind, r.key, r.val); err != nil {
				t.Fatal(err)
			}
			c.Records++
		}
		return c
	})
	s := imported(t, b)
	open, err := s.Journal.Open()
	if err != nil || len(open) > 0 {
		t.Errorf("open: %+v, %v", open, err)
	}
	for id, want := range map[string]bool{"open": false, "headless": false, "other": false, "named": false, "ended": true} {
		if _, err := s.Journal.Plan(id); (err == nil) != want || err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v", id, err)
		}
	}
	// A plan that is begun later must not take over steps of the plans that were left out.
	p := &store.Plan{Kind: store.PlanUndo, Steps: []store.Step{{N: 1, Do: store.DoDelete, Path: "b"}}}
	if err := s.Journal.Begin(context.Background(), p, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Journal.Plan(p.ID); err != nil || len(got.Steps) != 1 || len(got.Done) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestImportRefusesPathsElsewhere(t *testing.T) {
	for _, p := range []store.Path{"../out", "/etc/passwd", "a/../../out", "a//b", "a/", "./a", "..", "."} {
		for name, v := range map[string]store.Version{"path": {Path: p}, "from": {Path: "a", From: p, Op: store.OpRename}, "to": {Path: "a", To: p, Op: store.OpMoved}} {
			v.Seq, v.Time = 1, 1
			b := hostile(t, func(w *streamWriter) Totals {
				if err := w.put(store.RecordVersion, seqKey(1), encode(&v)); err != nil {
					t.Fatal(err)
				}
				return Totals{Totals: wire.Totals{Versions: 1}}
			})
			if _, err := Check(context.Background(), bytes.NewReader(b)); !errors.Is(err, ErrStream) {
				t.Errorf("%s %q: %v", name, string(p), err)
			}
			dir := filepath.Join(t.TempDir(), "store")
			if _, err := Import(context.Background(), dir, bytes.NewReader(b), here, storetest.Options()); !errors.Is(err, ErrStream) {
				t.Errorf("import, %s %q: %v", name, string(p), err)
			}
		}
	}
}

// The log of an imported history, and of one whose oldest records were dropped, can be read
// without the baselines, and nothing else is missing.
func TestImportedLogPassesOverWhatWasFound(t *testing.T) {
	s := storetest.Fresh(t)
	tree := storetest.NewTree()
	changed := 0
	for round := range 3 {
		var cs []store.Change
		for i := range 400 {
			c := tree.Write(store.Path(fmt.Sprintf("d%d/f%d", round, i)), "found\n")
			c.Op = store.OpBaseline
			cs = append(cs, c)
		}
		storetest.Apply(t, s, cs...)
		for i := range round + 1 {
			storetest.Apply(t, s, tree.Write(store.Path(fmt.Sprintf("d0/f%d", i)), fmt.Sprint("round ", round)))
			changed++
		}
	}
	check := func(s *store.Store, dropped int) {
		t.Helper()
		for _, oldest := range []bool{false, true} {
			all, _, err := s.Log(store.Filter{Baselines: true, Oldest: oldest, Limit: 1 << 20})
			if err != nil || len(all) != 1200+changed-dropped {
				t.Fatalf("%d versions: %v", len(all), err)
			}
			want := slices.DeleteFunc(all, func(v store.Version) bool { return v.Op == store.OpBaseline })
			got, _, err := s.Log(store.Filter{Oldest: oldest, Limit: 1 << 20})
			if err != nil || len(got) != changed || !slices.EqualFunc(got, want, func(a, b store.Version) bool { return a.Seq == b.Seq }) {
				t.Errorf("oldest first %v: %d versions, want %d: %v", oldest, len(got), changed, err)
			}
		}
	}
	check(s, 0)
	check(imported(t, exported(t, s)), 0)
	var old []store.Version
	if err := s.Each(func(v store.Version) bool {
		if v.Op == store.OpBaseline && v.Path < "d0/f2" && v.Path > "d0/f" { // each of these has newer versions
			old = append(old, v)
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, v := range old {
		if cur, found, err := s.Current(v.Path); err == nil && found && cur.Seq != v.Seq {
			old[n] = v
			n++
		}
	}
	if _, err := s.DropRecords(t.Context(), old[:n]); err != nil || n == 0 {
		t.Fatal(n, err)
	}
	check(s, n)
	check(imported(t, exported(t, s)), n)
}
