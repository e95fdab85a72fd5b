package search

import (
	"fmt"
	"testing"
	"time"
)

// An undo of the deletion of many files used to analyse each file again. Now their documents stay
// for an hour, even across a restart. While the files are deleted, they are not found. A file that
// returns with other content is found only by the new content.
func TestRemovedFilesReturn(t *testing.T) {
	c := newDiskCorpus(t, t.TempDir())
	const files = 40
	name := func(n int) string { return fmt.Sprintf("d/f%d.go", n) }
	write := func(n int) { c.write(t, name(n), fmt.Sprintf("package p\n\nfunc returningEnd%d() {}\n", n)) }
	remove := func(ago time.Duration) {
		for n := range files {
			c.remove(t, name(n))
			c.log[len(c.log)-1].Time = time.Now().Add(-ago).UnixNano()
		}
	}
	for n := range files {
		write(n)
	}
	c.write(t, "other.go", "package p\n\n// Returning at the end.\nfunc unreturningEndless() {}\n")
	x := openIndex(t, c)
	found := func(want int, what string) {
		t.Helper()
		if err := x.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		ranked, err := x.Rank(t.Context(), "returning end", Query{}, Hints{}, 100)
		if err != nil || len(ranked) != want+1 {
			t.Errorf("%s: by words %d files, want %d: %v", what, len(ranked), want+1, err)
		}
		r, err := x.Grep(t.Context(), Query{Pattern: "returningEnd", CaseSensitive: true})
		if err != nil || len(r.Lines) != want+1 || r.Candidates != want+1 {
			t.Errorf("%s: %d lines of %d files, want %d: %v", what, len(r.Lines), r.Candidates, want+1, err)
		}
		syms, _, err := x.Symbols(t.Context(), "returningEnd", Query{}, Hints{}, 0)
		if err != nil || len(syms) != want+min(1, files-want) { // if no function has that name, the function whose name contains it is found
			t.Errorf("%s: %d definitions, want %d: %v", what, len(syms), want, err)
		}
		if st := x.Stats(); st.Files != want+1 || st.Lag != 0 {
			t.Errorf("%s: %+v", what, st)
		}
	}
	found(files, "at first")

	remove(0)
	analysed := x.Stats().Analysed
	found(0, "removed")
	for n := range files {
		write(n)
	}
	found(files, "brought back")
	if n := x.Stats().Analysed - analysed; n != 0 {
		t.Errorf("%d files analysed that the index had", n)
	}

	remove(0)
	found(0, "removed again")
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	x = Open(x.dir, c, Options{})
	defer x.Close()
	found(0, "opened anew")
	c.write(t, name(0), "package p\n\nfunc otherwiseEnd() {}\n")
	for n := 1; n < files; n++ {
		write(n)
	}
	if err := x.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := x.Stats().Analysed; n != 1 {
		t.Errorf("%d files analysed of which one is new", n)
	}
	if got, err := x.Rank(t.Context(), "otherwise", Query{}, Hints{}, 100); err != nil || len(got) != 1 {
		t.Errorf("the new content: %d files: %v", len(got), err)
	}
	write(0)
	found(files, "all brought back")

	remove(2 * removedFor)
	found(0, "removed long ago")
	found(0, "and forgotten")
	if n, err := x.idx.DocCount(); err != nil || n != 2 { // the documents of other.go and of its only chunk
		t.Errorf("%d documents, want 2: %v", n, err)
	}
}
