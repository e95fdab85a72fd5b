package store

import (
	"bytes"
	"fmt"

	"cachebro/store/diff"
	"cachebro/store/text"
)

// BlameLine is one line of a file with the version that wrote it.
type BlameLine struct {
	Text []byte
	Version
}

// Blame says of each line of a file which version wrote it. at > 0 asks about
// the file as of that version.
func (s *Store) Blame(p Path, at uint64) ([]BlameLine, error) {
	vs, err := s.History(p, true)
	if err != nil {
		return nil, err
	}
	var shown []byte
	var who []int
	last := -1
	for i, v := range vs {
		if at > 0 && v.Seq > at {
			break
		}
		if v.Blob == (Hash{}) || last >= 0 && vs[last].Blob == v.Blob {
			continue
		}
		now, err := s.Content(v.Blob)
		if err != nil {
			continue // pruned: its lines are the next version's
		}
		if text.Binary(now) {
			return nil, fmt.Errorf("%q is no text", string(p))
		}
		who, shown, last = blameStep(who, shown, now, i), now, i
	}
	if last < 0 {
		return nil, fmt.Errorf("no text of %q is kept: %w", string(p), ErrNotFound)
	}
	out := make([]BlameLine, 0, len(who))
	for i, l := range diff.Lines(shown) {
		out = append(out, BlameLine{Text: l, Version: vs[who[i]]})
	}
	return out, nil
}

// blameStep says who wrote each line of now, given that of was; what is new is by i.
func blameStep(who []int, was, now []byte, i int) []int {
	// A log grows at its end. Comparing it whole, 20,000 times, takes a minute.
	if n := len(was); (n == 0 || was[n-1] == '\n') && bytes.HasPrefix(now, was) {
		for range diff.Lines(now[n:]) {
			who = append(who, i)
		}
		return who
	}
	sc := diff.Compare(was, now)
	next := make([]int, 0, len(sc.New))
	o := 0
	for _, e := range sc.Edits {
		next = append(next, who[o:e.OldFrom]...)
		for range e.NewTo - e.NewFrom {
			next = append(next, i)
		}
		o = e.OldTo
	}
	return append(next, who[o:]...)
}
