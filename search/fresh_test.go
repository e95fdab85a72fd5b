package search

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"cachebro/store"
)

// TestFresh edits files while the follower works, and searches immediately after each edit, before
// the follower learns of it. The new line is found, and the old line is not.
func TestFresh(t *testing.T) {
	c := newDiskCorpus(t, t.TempDir())
	for i := range 50 {
		c.write(t, fmt.Sprintf("dir%d/file%d.go", i%5, i), fmt.Sprintf("package p\n\nfunc first%d() {}\n", i))
	}
	x := openIndex(t, c)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := x.CatchUp(ctx); err != nil {
		t.Fatal(err)
	}
	x.Start(ctx)
	var took []time.Duration
	for n := range 200 {
		p := fmt.Sprintf("dir%d/file%d.go", n%5, n%50)
		c.write(t, p, fmt.Sprintf("package p\n\nfunc edited%dEnd() {}\n", n))
		began := time.Now()
		r, err := x.Grep(ctx, Query{Pattern: fmt.Sprintf("edited%dEnd", n), CaseSensitive: true})
		if err != nil || len(r.Lines) != 1 || string(r.Lines[0].Path) != p {
			t.Fatalf("edit %d: %+v %v", n, r, err)
		}
		took = append(took, time.Since(began))
		if s, _, err := x.Symbols(ctx, fmt.Sprintf("edited%dEnd", n), Query{}, Hints{}, 0); err != nil || len(s) != 1 || string(s[0].Path) != p {
			t.Fatalf("edit %d: the definition is not found: %+v %v", n, s, err)
		}
		c.write(t, fmt.Sprintf("made%d.go", n), "package p\n")
		if names := x.Names(fmt.Sprintf("made%d.go", n), Query{}, 1); len(names) != 1 || names[0].Path != store.Path(fmt.Sprintf("made%d.go", n)) {
			t.Fatalf("edit %d: the new file is not found: %+v", n, names)
		}
		if n >= 50 {
			if r, err = x.Grep(ctx, Query{Pattern: fmt.Sprintf("edited%dEnd", n-50), CaseSensitive: true}); err != nil || len(r.Lines) != 0 {
				t.Fatalf("edit %d: what was overwritten is still found: %+v %v", n, r, err)
			}
		}
		x.Poke()
	}
	c.remove(t, "dir0/file0.go")
	if r, err := x.Grep(ctx, Query{Pattern: "edited150End"}); err != nil || len(r.Lines) != 0 {
		t.Errorf("a deleted file is still found: %+v %v", r, err)
	}
	for deadline := time.Now().Add(20 * time.Second); x.Stats().Lag > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the follower does not catch up")
		}
	}
	got, err := x.Rank(ctx, "edited end", Query{}, Hints{}, 100)
	if err != nil || len(got) != 49 {
		t.Errorf("ranked: %d files, want 49: %v", len(got), err)
	}
	t.Logf("answers right after an edit: %s", quantiles(took))
}

// TestSuspend writes more versions than the follower reads at once while indexing is suspended.
// Exact queries find all of them, and the follower continues when it is resumed.
func TestSuspend(t *testing.T) {
	c := newDiskCorpus(t, t.TempDir())
	c.write(t, "first.go", "package p\n")
	x := openIndex(t, c)
	if err := x.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	release, again := x.Suspend(), x.Suspend()
	x.Start(t.Context())
	const files = 3*pastPage + 1
	for n := range files {
		c.add(store.Path(fmt.Sprintf("many/file%d.go", n)), nil, false)
	}
	c.write(t, "last.go", "package p\n\nvar heldBack = 1\n")
	x.Poke()
	r, err := x.Grep(t.Context(), Query{Pattern: "heldBack"})
	if err != nil || len(r.Lines) != 1 || r.Candidates != files+1 {
		t.Errorf("%d lines, %d candidates: %v", len(r.Lines), r.Candidates, err)
	}
	release()
	release()
	if st := x.Stats(); st.Lag != files+1 {
		t.Errorf("%d versions behind, want all: somebody still holds", st.Lag)
	}
	again()
	for deadline := time.Now().Add(60 * time.Second); x.Stats().Lag > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the follower does not go on")
		}
	}
}

// A follower that was told to stop used to finish its step, however many files that took. Now it
// ends after a batch. The next step does not index the files of that batch again.
func TestStopWithinStep(t *testing.T) {
	c := newDiskCorpus(t, t.TempDir())
	x := Open(t.TempDir(), c, Options{})
	t.Cleanup(func() { x.Close() })
	if err := x.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	const files = batchFiles + 10
	for n := range files {
		c.write(t, fmt.Sprintf("f%d.txt", n), fmt.Sprintf("text number%d\n", n))
	}
	if err := x.catchUp(t.Context(), 0, func() bool { return x.analysed.Load() > 0 }); err != nil {
		t.Fatal(err)
	}
	if st := x.Stats(); st.Analysed != batchFiles {
		t.Errorf("after it was told to stop: %+v", st)
	}
	if err := x.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := x.Stats(); st.Analysed != files || st.Indexed != files || st.Lag != 0 {
		t.Errorf("after it continued: %+v", st)
	}
}

// countingCorpus counts the files that are read.
type countingCorpus struct {
	*diskCorpus
	reads atomic.Int64
}

func (c *countingCorpus) Read(p store.Path, buf []byte) ([]byte, error) {
	c.reads.Add(1)
	return c.diskCorpus.Read(p, buf)
}

// A save of a file with many names used to be read once for each name.
func TestNamesOfOneFileAreReadOnce(t *testing.T) {
	c := &countingCorpus{diskCorpus: newDiskCorpus(t, t.TempDir())}
	const names = 100
	for n := range names {
		c.write(t, fmt.Sprintf("name%d.txt", n), "one text\n")
	}
	x := Open(t.TempDir(), c, Options{Workers: 1})
	t.Cleanup(func() { x.Close() })
	if err := x.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	// With the race detector, a sync.Pool loses some of the lexicons that remember the content.
	if n := c.reads.Load(); n == 0 || n > names/2 {
		t.Errorf("%d names of one content: %d reads", names, n)
	}
	if st := x.Stats(); st.Indexed != names {
		t.Errorf("%+v", st)
	}
}

// TestPast searches for a line that was removed 500 versions ago, and in a deleted file.
func TestPast(t *testing.T) {
	c := newDiskCorpus(t, t.TempDir())
	c.write(t, "a.go", "package p\n\nfunc vanished() {}\n")
	for n := range 500 {
		c.write(t, "a.go", fmt.Sprintf("package p\n\nvar n = %d\n", n))
	}
	c.write(t, "b.go", "package p\n\nfunc deletedToo() {}\n")
	c.remove(t, "b.go")
	x := openIndex(t, c)
	for _, tc := range []struct {
		pattern           string
		first, last, gone uint64
	}{{"func vanished", 1, 1, 2}, {"deletedToo", 502, 502, 503}, {"var n = 42", 422, 0, 0}} {
		r, err := x.History(context.Background(), Query{Pattern: tc.pattern, CaseSensitive: true}, 10)
		if err != nil || len(r.Hits) != 1 {
			t.Fatalf("%q: %+v %v", tc.pattern, r, err)
		}
		if h := r.Hits[0]; tc.last != 0 && (h.First != tc.first || h.Last != tc.last || h.Gone != tc.gone) {
			t.Errorf("%q: %+v", tc.pattern, h)
		}
	}
	if r, err := x.History(context.Background(), Query{Pattern: "var n = 499"}, 10); err != nil || len(r.Hits) != 0 {
		t.Errorf("what is still there is not of the past: %+v %v", r, err)
	}
}

// A query of the past used to read the whole log and all contents for the few lines that it shows.
// Now it goes from the newest to the oldest version and stops when it has enough lines.
func TestPastReadsNoMoreThanItShows(t *testing.T) {
	c := newDiskCorpus(t, t.TempDir())
	const files = 300
	for n := range files {
		c.write(t, fmt.Sprintf("f%d.go", n), fmt.Sprintf("package p\n\nfunc vanished%d() {}\n", n))
	}
	for n := range files {
		c.write(t, fmt.Sprintf("f%d.go", n), fmt.Sprintf("package p // %d\n", n))
	}
	x := openIndex(t, c)
	r, err := x.History(t.Context(), Query{Pattern: "func vanished"}, 5)
	if err != nil || len(r.Hits) != 5 || r.Cut || r.Versions > files/2 {
		t.Fatalf("%d hits from %d contents: %v", len(r.Hits), r.Versions, err)
	}
	for i, h := range r.Hits { // the newest removal comes first
		if want := uint64(2*files - i); h.Gone != want {
			t.Errorf("hit %d went away with %d, want %d", i, h.Gone, want)
		}
	}
	if r, err = x.History(t.Context(), Query{Pattern: "func vanished"}, 0); err != nil || len(r.Hits) != files || r.Versions != 2*files {
		t.Errorf("all: %d hits from %d contents: %v", len(r.Hits), r.Versions, err)
	}
}
