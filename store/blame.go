package store

import (
	"bytes"
	"crypto/sha256"
	"fmt"

	"cachebro/store/diff"
	"cachebro/store/leaf/text"
)

// BlameLine is one line of a file with the version that wrote it.
type BlameLine struct {
	Text []byte
	Version
}

// Blame returns, for each line of a file, the version that wrote it. If at > 0, it uses the
// file as of that version. If a content is binary, the error is text.ErrNotText.
func (s *Store) Blame(p Path, at uint64) ([]BlameLine, error) {
	vs, err := s.History(p, true)
	if err != nil {
		return nil, err
	}
	var known []int // indexes of the versions whose content differs from the previous one
	for i, v := range vs {
		if at > 0 && v.Seq > at {
			break
		}
		if n := len(known); v.Blob != (Hash{}) && (n == 0 || vs[known[n-1]].Blob != v.Blob) {
			known = append(known, i)
		}
	}
	var shown []byte
	var who []int
	found := false
	tries := grower{width: 1}
	for len(known) > 0 {
		n, now := 0, []byte(nil)
		if most := tries.next(); most > 0 {
			n, now = s.prefixRun(vs, known, most)
			tries.had(n)
		}
		alone := n == 0
		if alone {
			now, err = s.Content(vs[known[0]].Blob)
			if err != nil {
				known = known[1:]
				continue // pruned: its lines are attributed to the next newer version
			}
			n = 1
		}
		if text.Binary(now) {
			return nil, text.ErrNotText
		}
		for _, i := range known[:n] {
			part := now
			if !alone {
				part = now[:vs[i].Stat.Size]
			}
			part, _ = text.Shown(part)
			who = blameStep(who, shown, part, i)
			shown, found = part, true
		}
		known = known[n:]
	}
	if !found {
		return nil, fmt.Errorf("no text of %q is stored: %w", string(p), ErrNotFound)
	}
	out := make([]BlameLine, 0, len(who))
	for i, l := range diff.Lines(shown) {
		out = append(out, BlameLine{Text: l, Version: vs[who[i]]})
	}
	return out, nil
}

// prefixRun speeds up blame for files that only grow, such as logs. Hashing 20,000 contents, each a
// prefix of the next, takes most of a minute. So prefixRun reads and returns only the content of
// one later version, at most the given number of versions ahead. n is the number of leading
// versions whose contents are prefixes of that content, as their hashes prove. Their own contents
// are not read, so they may have been pruned.
func (s *Store) prefixRun(vs []Version, known []int, most int) (n int, content []byte) {
	most = min(most, len(known)-1)
	for i := range most {
		if vs[known[i]].Stat.Size >= vs[known[i+1]].Stat.Size {
			most = i
			break
		}
	}
	if most < 1 {
		return 0, nil
	}
	content, err := s.Content(vs[known[most]].Blob)
	if err != nil {
		return 0, nil
	}
	d, done := sha256.New(), int64(0)
	for _, i := range known[:most+1] {
		size := vs[i].Stat.Size
		if size > int64(len(content)) {
			break
		}
		d.Write(content[done:size])
		done = size
		if Hash(d.Sum(nil)) != vs[i].Blob {
			break
		}
		n++
	}
	return n, content
}

// grower decides how far ahead prefixRun looks. The distance doubles after each success. After
// failures prefixRun is called less often.
type grower struct{ width, rest, pause int }

func (g *grower) next() int {
	if g.rest > 0 {
		g.rest--
		return 0
	}
	return g.width
}

func (g *grower) had(n int) {
	switch {
	case n > g.width:
		g.width, g.pause = 2*g.width, 0
	case n > 0:
		g.width = max(1, n/2)
	default:
		g.width, g.pause = 1, min(2*g.pause+1, 64)
		g.rest = g.pause
	}
}

// blameStep returns who wrote each line of now, given who wrote each line of was. New
// lines are attributed to i.
func blameStep(who []int, was, now []byte, i int) []int {
	// A log usually only grows. Comparing 20,000 whole contents takes a minute.
	n := len(was)
	wholeLines := n == 0 || was[n-1] == '\n'
	if wholeLines && bytes.HasPrefix(now, was) {
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
