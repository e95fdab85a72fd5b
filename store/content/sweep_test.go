package content

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// stopping is a context that is cancelled after a number of calls of Err.
type stopping struct {
	context.Context
	left *int
}

func (c stopping) Err() error {
	if *c.left--; *c.left < 0 {
		return context.Canceled
	}
	return nil
}

// A daemon that was killed in the middle of a sweep left deltas without their bases. fsck found
// thousands of damaged contents, and a file that was saved with an old content again got a damaged
// one. Even without a kill, this happened to contents that were saved during a sweep.
func TestStoppedSweepLeavesWhatCanBeRead(t *testing.T) {
	s := newTestLog(t)
	rnd := rand.New(rand.NewPCG(7, 7))
	text := make([]byte, 4000)
	for i := range text {
		text[i] = byte(rnd.Uint32())
	}
	var all [][]byte
	for i := range 1500 {
		text[rnd.IntN(len(text))] = byte(rnd.Uint32())
		all = append(all, slices.Clone(text))
		s.put(t, fmt.Sprint("f", i%2), slices.Clone(text))
	}
	live := []Hash{s.last["f0"], s.last["f1"]}
	stops := 0
	for n := len(all) - 1; ; n += 20 {
		left := n
		_, err := s.Sweep(stopping{t.Context(), &left}, WasteShared, func(add func(Hash)) error {
			for _, h := range live {
				add(h)
			}
			return nil
		})
		v, verr := s.Verify(t.Context(), t.Errorf)
		if verr != nil || v.Unread != nil || len(v.Bad) > 0 || t.Failed() {
			t.Fatalf("after %d looks (%v): %d of %d contents are damaged, %v %v", n, err, len(v.Bad), v.Blobs, verr, v.Unread)
		}
		// A dropped content that is saved again can be read.
		s.Forget()
		was := all[rnd.IntN(len(all))]
		s.put(t, "again", slices.Clone(was))
		live = append(live, s.last["again"])
		s.Forget()
		if got, err := s.Get(live[len(live)-1]); err != nil || string(got) != string(was) {
			t.Fatalf("saved again: %v", err)
		}
		if err == nil {
			break
		}
		if v.Blobs < len(all) {
			stops++
		}
	}
	if stops == 0 {
		t.Error("no sweep was stopped while it deleted")
	}
}
