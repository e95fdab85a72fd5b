package search

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"cachebro/store"
)

// segments returns how many files the index has, and how many merges were made.
func segments(t *testing.T, x *Index) (files, merges uint64) {
	t.Helper()
	m := x.adv.StatsMap()
	files, _ = m["TotFileSegmentsAtRoot"].(uint64)
	merges, _ = m["TotFileMergePlanTasksDone"].(uint64)
	return files, merges
}

// The segments of a first index are merged once, at its end. They used to be merged in groups of
// ten as they were made, and then all together. That took a third of the processor time for the Go
// source tree.
func TestFirstIndexIsMergedAtItsEnd(t *testing.T) {
	c := newDiskCorpus(t, t.TempDir())
	x := Open(t.TempDir(), c, Options{})
	t.Cleanup(func() { x.Close() })
	merge := x.holdMerges()
	defer merge()
	for n := 0; ; n++ {
		files, merges := segments(t, x)
		if merges > 0 {
			t.Fatalf("merged with %d files", files)
		}
		if files >= 25 {
			break
		}
		if n == 2000 {
			t.Fatalf("%d files", files)
		}
		c.write(t, fmt.Sprintf("f%d.go", n), fmt.Sprintf("package p\n\nfunc f%d() {}\n", n))
		b := x.newBatch()
		b.take(c.log[n])
		if err := b.commit(t.Context(), 0, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.compact(t.Context(), merge); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		files, merges := segments(t, x)
		if merges > 0 && files < 5 { // only the segments that were still in memory are written
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d files after %d merges", files, merges)
		}
	}
}

// The index of a large tree begins with the files that were changed last. All others, and files
// that were changed at the same time, stay in their order, and none is lost or taken twice.
func TestLastChangedFirst(t *testing.T) {
	for _, c := range []struct {
		changed []int64
		n       int
		want    string
	}{
		{[]int64{1, 9, 2, 8, 3}, 2, "bdace"},
		{[]int64{9, 1, 2, 3, 8}, 2, "aebcd"},
		{[]int64{5, 5, 5, 5}, 2, "abcd"},
		{[]int64{5, 7, 5, 1}, 2, "abcd"},
		{[]int64{1, 2, 3}, 3, "abc"},
		{[]int64{1, 2}, 5, "ab"},
		{nil, 5, ""},
	} {
		corpus := newDiskCorpus(t, t.TempDir())
		for i, at := range c.changed {
			v := corpus.add(store.Path('a'+rune(i)), []byte("x"), false)
			v.Stat.Mtime = at
			corpus.live[v.Path] = v
		}
		x := Open(t.TempDir(), corpus, Options{BatchBytes: 2})
		defer x.Close()
		var got string
		if err := x.eachBatch(t.Context(), periods(slices.Clone(c.changed), c.n, c.n), func(b *batch) error {
			for _, v := range b.files {
				got += string(v.Path)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if got != c.want {
			t.Errorf("%v, %d: %s instead of %s", c.changed, c.n, got, c.want)
		}
	}
}

// A first index that was interrupted keeps the files that it has and continues. The daemon used to
// be killed again and again where memory was short, and each time it indexed all files anew.
func TestFirstIndexGoesOn(t *testing.T) {
	const files = 60
	c := newDiskCorpus(t, t.TempDir())
	for n := range files {
		c.write(t, fmt.Sprintf("f%d.go", n), fmt.Sprintf("package p\n\nfunc f%d() {}\n", n))
	}
	dir, batches := filepath.Join(t.TempDir(), "index"), 0
	x := Open(dir, c, Options{BatchBytes: 1, Room: func() bool { batches++; return batches <= files/2 }})
	if err := x.CatchUp(t.Context()); !errors.Is(err, errNoRoom) {
		t.Fatal(err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	c.write(t, "f0.go", "package p\n\nfunc another() {}\n")
	c.remove(t, "f1.go")
	x = Open(dir, c, Options{})
	defer x.Close()
	if st := x.Stats(); st.Ready || st.Indexed == 0 || st.Problem != beingMade {
		t.Errorf("%+v", st)
	}
	if err := x.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := x.Stats(); !st.Ready || st.Files != files-1 || st.Analysed > files/2+2 {
		t.Errorf("%+v", st)
	}
	for pattern, want := range map[string]int{"func f": files - 2, "func f0": 0, "func f1(": 0, "func another": 1} {
		r, err := x.Grep(t.Context(), Query{Pattern: pattern, CaseSensitive: true})
		if err != nil || len(r.Lines) != want || r.Warning != "" {
			t.Errorf("%q: %d lines, want %d, warning %q, %v", pattern, len(r.Lines), want, r.Warning, err)
		}
	}
	ranked, err := x.Rank(t.Context(), "func f1", Query{}, Hints{}, files)
	if err != nil || len(ranked) == 0 || slices.ContainsFunc(ranked, func(r Ranked) bool { return r.Path == "f1.go" }) {
		t.Errorf("%+v, %v", ranked, err)
	}
}
