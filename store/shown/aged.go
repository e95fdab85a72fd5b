package shown

import (
	"slices"

	"cachebro/store"
)

// A base expires after so many tokens because some clients clear old results
// without a word. Where a client keeps a record of how large its context was at
// each request, that record can tell: a context that lost nothing only grows.
// Held and Fell (Event) bring that word; it is asked for only when it matters.

// aged reports whether the answer would be shorter, were it not for the number
// of tokens that were delivered since.
func (c *chooser) aged() bool {
	if !outgrown(c.snap.pieces, c.snap.clock) {
		return false
	}
	young := *c
	young.snap.clock.held = young.snap.clock.delivered
	d, err := young.choose()
	return err == nil && !d.full
}

// outgrown: there are pieces for which the word that the context is whole would
// make a difference.
func outgrown(ps []piece, c clock) bool {
	young := c
	young.held = c.delivered
	return slices.ContainsFunc(ps, func(p piece) bool { return p.outgrown(c) && !p.expired(young) })
}

// Aged reports whether anything that the reader was shown of these files has
// expired by tokens alone.
func (s *Shown) Aged(id store.Reader, paths []store.Path) bool {
	r := s.reader(id, false)
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.clockLocked(s.now(), s.o)
	return slices.ContainsFunc(paths, func(p store.Path) bool {
		f := r.files[p]
		return f != nil && outgrown(f.pieces, c)
	})
}
