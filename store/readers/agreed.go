package readers

import (
	"bytes"
	"slices"

	"cachebro/store"
)

// maxAgreeing is the largest number of contents that are compared for one answer.
const maxAgreeing = 8

// sameInAllContents covers the requested lines with pieces of several contents. A reader that edits
// a file between its reads was shown parts of different contents. sameInAllContents considers every
// content that the reader learned of since the oldest of these pieces. If all these contents have
// exactly the requested lines of the current content, under the same numbers, the reader holds the
// lines, whichever content it believes to be current.
func (c *chooser) sameInAllContents() (proof, bool, error) {
	if c.whole || c.last < c.first {
		return proof{}, false, nil
	}
	later := slices.Clone(c.snap.pieces)
	slices.SortFunc(later, func(a, b piece) int { return int(b.N) - int(a.N) })
	missing := make([]bool, c.last-c.first+1)
	for i := range missing {
		missing[i] = true
	}
	left := len(missing)
	same := map[store.Hash]bool{c.q.Hash: true}
	out := proof{}
	for i := range later {
		p := &later[i]
		ok, known := same[p.Hash]
		if !known {
			if len(same) > maxAgreeing {
				return proof{}, false, nil
			}
			var err error
			ok, err = c.sameLines(p.Hash)
			if err != nil {
				return proof{}, false, err
			}
			same[p.Hash] = ok
		}
		if !ok {
			return proof{}, false, nil
		}
		if !p.usable(c.meta.rendering) || p.expired(c.snap.clock) {
			continue
		}
		covers := false
		for l := max(p.First, c.first); l <= min(p.Last, c.last); l++ {
			if missing[l-c.first] {
				missing[l-c.first], covers = false, true
				left--
			}
		}
		if !covers {
			continue
		}
		if out.hash == (store.Hash{}) {
			out = proof{total: p.Total, last: p.N, at: p.At, mark: p.Mark}
		}
		out.hash, out.n = p.Hash, p.N
		out.at, out.mark = min(out.at, p.At), min(out.mark, p.Mark)
		out.deps = addDeps(out.deps, p.Deps...)
		if p.As != "" {
			out.as = p.As
		}
		out.from = addCall(out.from, p.calls()...)
		if left == 0 {
			return out, true, nil
		}
	}
	return proof{}, false, nil
}

// sameLines reports whether another content has the requested lines unchanged and under the same
// numbers. It returns false if that content is not available.
func (c *chooser) sameLines(h store.Hash) (bool, error) {
	if h == (store.Hash{}) {
		return false, nil
	}
	v, err := c.view()
	if err != nil {
		return false, err
	}
	old := c.oldView(h)
	if old == nil {
		return false, nil
	}
	areText := old.valid && v.valid && !old.binary && !v.binary
	if !areText || old.rendering != v.rendering || old.total < c.last {
		return false, nil
	}
	return bytes.Equal(old.slice(c.first, c.last), v.slice(c.first, c.last)), nil
}
