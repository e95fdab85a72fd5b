package search

import (
	"fmt"
	"testing"
	"time"

	"cachebro/store"
)

// segments is how many files the index consists of, and merges how many were made.
func segments(t *testing.T, x *Index) (files, merges uint64) {
	t.Helper()
	m := x.scorch().StatsMap()
	files, _ = m["TotFileSegmentsAtRoot"].(uint64)
	merges, _ = m["TotFileMergePlanTasksDone"].(uint64)
	return files, merges
}

// The segments of a first index are merged once, at its end. They were merged by tens as
// they came, and all of it again then: a third of the processor time of the Go tree's.
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
		if merges > 0 && files < 5 { // what was in memory yet is left
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d files after %d merges", files, merges)
		}
	}
}

// The index of a large tree begins with what was changed last; all else, and what was
// changed at one time, stays in its order, and nothing is lost.
func TestLastChangedFirst(t *testing.T) {
	for _, c := range []struct {
		changed []int64
		n       int
		want    string
	}{
		{[]int64{1, 9, 2, 8, 3}, 2, "bdace"},
		{[]int64{9, 1, 2, 3, 8}, 2, "aebcd"},
		{[]int64{5, 5, 5, 5}, 2, "cdab"},
		{[]int64{5, 7, 5, 1}, 2, "bcad"},
		{[]int64{1, 2, 3}, 3, "abc"},
		{[]int64{1, 2}, 5, "ab"},
		{nil, 5, ""},
	} {
		var all []wanted
		for i, at := range c.changed {
			all = append(all, wanted{path: store.Path('a' + rune(i)), changed: at})
		}
		lastChangedFirst(all, c.n)
		var got string
		for _, w := range all {
			got += string(w.path)
		}
		if got != c.want {
			t.Errorf("%v, %d: %s instead of %s", c.changed, c.n, got, c.want)
		}
	}
}
