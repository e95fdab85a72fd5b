package content

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"cachebro/store/db"
	"cachebro/store/space"
)

// testLog is a minimal log. It records each use of a content, and the last content of each path.
type testLog struct {
	*Store
	db     *db.DB
	counts Counts
	uses   []use
	last   map[string]Hash
}

type use struct {
	hash Hash
	path string
}

func newTestLog(t testing.TB) *testLog {
	t.Helper()
	dir := t.TempDir()
	room := space.New(dir, space.Options{MinFree: 1})
	logger := slog.New(slog.DiscardHandler)
	d, err := db.Open(dir, room, db.Options{Log: logger})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.RefuseCalls()
		if err := d.Close(func() error { return nil }); err != nil {
			t.Error(err)
		}
	})
	l := &testLog{db: d, last: map[string]Hash{}}
	l.Store = New(dir, d, room, Log{Write: l.write, Uses: l.eachUse}, Options{MaxBlob: 32 << 20, Now: time.Now, Log: logger})
	return l
}

func (l *testLog) write(fn func(*Batch) error) error {
	l.db.Lock()
	defer l.db.Unlock()
	w := l.db.NewWriter()
	defer w.Close()
	b := l.Batch(w, l.counts)
	if err := fn(b); err != nil {
		return err
	}
	if err := b.Flush(); err != nil {
		return err
	}
	if err := w.Commit(); err != nil {
		return err
	}
	b.Committed()
	l.counts = b.Counts
	return nil
}

func (l *testLog) eachUse(fn func(h Hash, path string) bool) error {
	for _, u := range l.uses {
		if !fn(u.hash, u.path) {
			break
		}
	}
	return nil
}

// put stores the present content of a path.
func (l *testLog) put(t testing.TB, path string, text []byte) {
	t.Helper()
	err := l.write(func(b *Batch) error {
		tail, err := b.Put(text, func() Hash { return l.last[path] })
		if err == nil {
			l.last[path] = tail.Hash()
			l.uses = append(l.uses, use{tail.Hash(), path})
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (l *testLog) repacked(t testing.TB) {
	t.Helper()
	l.Lock()
	defer l.Unlock()
	if err := l.Repack(t.Context(), false, &Report{}); err != nil {
		t.Fatal(err)
	}
	if l.counts.Loose != 0 {
		t.Fatalf("%d bytes are loose after a repack", l.counts.Loose)
	}
}

// manyFiles stores n files that do not resemble each other, and an empty one.
func manyFiles(t testing.TB, l *testLog, n int) {
	rnd := rand.New(rand.NewPCG(11, 11))
	for i := range n {
		var text []byte
		for range 40 + i {
			text = fmt.Appendf(text, "%016x%016x%016x\n", rnd.Uint64(), rnd.Uint64(), rnd.Uint64())
		}
		l.put(t, fmt.Sprintf("dir%d/f%d.go", i%5, i), text)
	}
	l.put(t, "empty", nil)
}
