package search

import (
	"fmt"
	"testing"
	"time"
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
