package search

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// On a full disk, the index used to grow until no program could write any more. Now it stops
// growing, keeps its files, and continues when there is space again.
func TestNoRoom(t *testing.T) {
	c := newDiskCorpus(t, t.TempDir())
	c.write(t, "a.txt", "first\n")
	var full atomic.Bool
	x := Open(filepath.Join(t.TempDir(), "index"), c, Options{Room: func() bool { return !full.Load() }})
	defer x.Close()
	x.Start(context.Background())
	x.Poke()
	followed := func(what string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); x.Stats().Lag > 0 || !x.Stats().Ready; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %+v", what, x.Stats())
			}
		}
	}
	followed("the first index")
	full.Store(true)
	seq := x.Stats().Seq
	c.write(t, "b.txt", "second\n")
	x.Poke()
	// CatchUp returns an error, and the existing index stays.
	if err := x.CatchUp(context.Background()); err == nil {
		t.Error("it wrote although there is no room")
	}
	for _, word := range []string{"first", "second"} { // the first word is in the index, the second only in the file
		if r, err := x.Grep(context.Background(), Query{Pattern: word}); err != nil || len(r.Lines) != 1 {
			t.Errorf("%s: %+v, %v", word, r, err)
		}
	}
	if st := x.Stats(); st.Seq != seq || !st.Ready || st.Problem != "" {
		t.Errorf("without room: %+v", st)
	}
	full.Store(false)
	x.Poke()
	followed("room again")
}
