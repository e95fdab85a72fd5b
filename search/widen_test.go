package search

import (
	"fmt"
	"testing"
)

// TestWiden asks for a word that only two files contain. These files come first. Then come files
// with rare words that the two files share. Files that share only common words with them are not
// found.
func TestWiden(t *testing.T) {
	c := newDiskCorpus(t, t.TempDir())
	for n := range 40 {
		c.write(t, fmt.Sprintf("plain%02d.go", n), fmt.Sprintf("package p\n\nfunc value%d() { print(common) }\n", n))
	}
	c.write(t, "a.go", "package p\n\n// spindle turns the flywheel\nfunc turn() { print(common) }\n")
	c.write(t, "b.go", "package p\n\n// flywheel of the spindle\nfunc hold() { print(common) }\n")
	c.write(t, "c.go", "package p\n\n// flywheel alone\nfunc wait() { print(common) }\n")
	x := openIndex(t, c)
	if err := x.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := x.Rank(t.Context(), "spindle", Query{}, Hints{}, 20)
	if err != nil || len(got) < 3 || len(got) > fewRanked {
		t.Fatalf("%d files: %v", len(got), err)
	}
	first := map[string]bool{string(got[0].Path): true, string(got[1].Path): true}
	if !first["a.go"] || !first["b.go"] || got[2].Path != "c.go" || got[2].Score >= got[1].Score {
		t.Errorf("%+v", got[:3])
	}
	if got, err = x.Rank(t.Context(), "nowhere", Query{}, Hints{}, 20); err != nil || len(got) != 0 {
		t.Errorf("a word that no file has is widened: %+v %v", got, err)
	}
}
