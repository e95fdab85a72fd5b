package search

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/blevesearch/bleve/v2/index/scorch"
)

// TestDirectoryGone: an index whose directory was deleted can no longer write. It must not retry as
// fast as it can, and a caller that gives up must not be blocked.
func TestDirectoryGone(t *testing.T) {
	c := newDiskCorpus(t, t.TempDir())
	x := openIndex(t, c)
	add := func(i int) {
		t.Helper()
		c.write(t, fmt.Sprintf("f%d.txt", i), fmt.Sprintf("word%d\n", i))
		if err := x.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 {
		add(i)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if segments, _ := filepath.Glob(filepath.Join(x.dir, "bleve", "store", "*.zap")); len(segments) > 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("nothing was written")
		}
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		err := os.RemoveAll(x.dir)
		if err == nil {
			break
		}
		if time.Now().After(end) { // ENOTEMPTY: the index wrote a file in between
			t.Fatal(err)
		}
	}
	add(20)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	given := make(chan error, 1)
	go func() { given <- x.compact(ctx, func() {}) }()
	select {
	case err := <-given:
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("waits for a merge that cannot succeed")
	}
	adv, err := x.idx.Advanced()
	if err != nil {
		t.Fatal(err)
	}
	stats := adv.(*scorch.Scorch).StatsMap()
	tries, _ := stats["TotFileMergeLoopErr"].(uint64)
	again, _ := stats["TotPersistLoopErr"].(uint64)
	if tries+again > 200 { // in two seconds
		t.Errorf("tried %d merges and %d writes", tries, again)
	}
}
