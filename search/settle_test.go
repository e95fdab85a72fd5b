package search

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"cachebro/store"
)

// followed waits until the index has everything.
func followed(t *testing.T, x *Index) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); x.Stats().Lag > 0 || !x.Stats().Ready; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the follower does not catch up: %+v", x.Stats())
		}
	}
}

// The follower used to index every window of 1,600 versions. With 20,000 saves of 50 files, it
// analysed each of the 50 texts 13 times, and only the last time was of use.
func TestSupersededIsNotIndexed(t *testing.T) {
	c := newDiskCorpus(t, t.TempDir())
	c.write(t, "first.go", "package p\n")
	x := openIndex(t, c)
	if err := x.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	const files, saves = 50, 10_000
	for n := range saves - files {
		c.add(store.Path(fmt.Sprintf("f%d.go", n%files)), fmt.Appendf(nil, "text %d", n), false)
	}
	for n := range files {
		c.write(t, fmt.Sprintf("f%d.go", n), fmt.Sprintf("package p\n\nfunc last%dEnd() {}\n", n))
	}
	before := x.Stats().Analysed
	if err := x.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := x.Stats(); st.Analysed-before != files || st.Lag != 0 {
		t.Errorf("%d files analysed, want %d: %+v", st.Analysed-before, files, st)
	}
	if got, err := x.Rank(t.Context(), "last end", Query{}, Hints{}, 100); err != nil || len(got) != files {
		t.Errorf("ranked: %d files, want %d: %v", len(got), files, err)
	}
}

// A directory is renamed again and again while the index is behind. Its files are indexed only
// under their last names, and the names in between are skipped.
func TestRenamedAgainAndAgain(t *testing.T) {
	c := newDiskCorpus(t, t.TempDir())
	const files, renames = 40, 200
	for n := range files {
		c.write(t, fmt.Sprintf("d0/f%d.go", n), fmt.Sprintf("package p\n\nfunc kept%dEnd() {}\n", n))
	}
	x := openIndex(t, c)
	if err := x.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	for r := range renames {
		if err := os.Rename(filepath.Join(c.root, fmt.Sprintf("d%d", r)), filepath.Join(c.root, fmt.Sprintf("d%d", r+1))); err != nil {
			t.Fatal(err)
		}
		for n := range files {
			content, err := os.ReadFile(filepath.Join(c.root, fmt.Sprintf("d%d/f%d.go", r+1, n)))
			if err != nil {
				t.Fatal(err)
			}
			c.add(store.Path(fmt.Sprintf("d%d/f%d.go", r, n)), nil, true)
			c.add(store.Path(fmt.Sprintf("d%d/f%d.go", r+1, n)), content, false)
		}
	}
	before := x.Stats()
	if err := x.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := x.Stats(); st.Analysed-before.Analysed != files || st.Lag != 0 || st.Files != files || st.Indexed != files {
		t.Errorf("%d entered, want %d: %+v", st.Analysed-before.Analysed, files, st)
	}
	got, err := x.Rank(t.Context(), "kept end", Query{}, Hints{}, 100)
	if err != nil || len(got) != files {
		t.Errorf("ranked: %d files, want %d: %v", len(got), files, err)
	}
	for _, h := range got {
		if !h.Path.Inside(store.Path(fmt.Sprintf("d%d", renames))) {
			t.Errorf("found at %s", h.Path)
		}
	}
}

// A file that is saved a hundred times in a row is indexed once or twice. Exact queries always find
// its present content. When the saves have stopped, ranked queries find it too, even after a
// restart.
func TestSavedAgainAndAgain(t *testing.T) {
	c := newDiskCorpus(t, t.TempDir())
	for n := range 20 {
		c.write(t, fmt.Sprintf("f%d.go", n), "package p\n")
	}
	x := openIndex(t, c)
	if err := x.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	word := func(n int) string { return fmt.Sprintf("edited%c%cend", 'a'+n/26, 'a'+n%26) }
	before := x.Stats().Analysed
	saved := func(from, to int) {
		for n := from; n < to; n++ {
			c.write(t, "f7.go", "package p\n\nfunc "+word(n)+"() {}\n")
			// This does the same as Start, but without pauses.
			if err := x.catchUp(t.Context(), time.Hour, func() bool { return false }); err != nil {
				t.Fatal(err)
			}
			r, err := x.Grep(t.Context(), Query{Pattern: word(n), CaseSensitive: true})
			if err != nil || len(r.Lines) != 1 || r.Candidates > 2 {
				t.Fatalf("edit %d: %+v %v", n, r, err)
			}
			if n > 0 {
				if r, err = x.Grep(t.Context(), Query{Pattern: word(n - 1), CaseSensitive: true}); err != nil || len(r.Lines) != 0 {
					t.Fatalf("edit %d: what was overwritten is found: %+v %v", n, r, err)
				}
			}
			if s, _, err := x.Symbols(t.Context(), word(n), Query{}, Hints{}, 0); err != nil || len(s) != 1 {
				t.Fatalf("edit %d: the definition is not found: %+v %v", n, s, err)
			}
		}
	}
	saved(0, 50)
	if got, err := x.Rank(t.Context(), word(49), Query{}, Hints{}, 10); err != nil || len(got) != 1 {
		t.Errorf("by its words, %d files while the file waits, want 1: %v", len(got), err)
	}
	saved(50, 100)
	if st := x.Stats(); st.Analysed-before != 2 || st.Lag != 1 {
		t.Errorf("%d analysed, want 1 and 1 for the question, and the file waiting: %+v", st.Analysed-before, st)
	}
	// The daemon is killed before it has indexed the last save.
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	x = Open(x.dir, c, Options{})
	defer x.Close()
	if st := x.Stats(); st.Lag == 0 || st.Files != 20 || !st.Ready {
		t.Errorf("opened again: %+v", st)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	x.Start(ctx)
	followed(t, x)
	ranked := func(word string, want int) {
		t.Helper()
		if got, err := x.Rank(ctx, word, Query{}, Hints{}, 10); err != nil || len(got) != want {
			t.Errorf("%s: %d files, want %d: %v", word, len(got), want, err)
		}
	}
	ranked(word(99), 1)
	// When the saves have stopped, the file is indexed without a request.
	for n := 100; n < 103; n++ {
		c.write(t, "f7.go", "package p\n\nfunc "+word(n)+"() {}\n")
		x.Poke()
	}
	followed(t, x)
	ranked(word(102), 1)
	ranked(word(99), 0)
	// A save that changes nothing, or restores the previous content, needs no analysis.
	before = x.Stats().Analysed
	c.write(t, "f7.go", "package p\n\nfunc "+word(102)+"() {}\n")
	x.Poke()
	followed(t, x)
	if n := x.Stats().Analysed - before; n != 0 {
		t.Errorf("%d analysed of a file with the same content", n)
	}
}
