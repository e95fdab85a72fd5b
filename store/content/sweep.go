package content

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// chunk is how many keys one step of background work touches while it holds the lock of the
// writer, so that Apply waits a few milliseconds at most.
const chunk = 200

// Report counts what was dropped and moved.
type Report struct {
	Blobs   int   // contents dropped
	Bytes   int64 // their stored size
	Rebased int   // contents stored again because their base was dropped
	Packed  int   // contents put into frames
	// Loosened is the former stored size of the packed contents.
	Loosened int64
}

// Short returns the part of a hash that large sets keep. A collision can make a content stay,
// but never makes one go.
func Short(h Hash) uint64 { return binary.BigEndian.Uint64(h[:8]) }

// Set is a sorted set of contents, by Short: 8 bytes an entry, where a map takes 40.
type Set []uint64

// NewSet returns the set of what fill adds, without the zero Hash.
func NewSet(fill func(add func(Hash)) error) (Set, error) {
	var hs Set
	err := fill(func(h Hash) {
		if h != (Hash{}) {
			hs = append(hs, Short(h))
		}
	})
	slices.Sort(hs)
	return slices.Compact(hs), err
}

// Has reports whether a content is in the set. After a collision it may be wrongly true.
func (hs Set) Has(h Hash) bool { _, ok := slices.BinarySearch(hs, Short(h)); return ok }

// watch makes Apply note the contents it refers to from now on. Contents that come into use
// between a sweep's look at the log and its deletions must stay.
func (s *Store) watch() (stop func()) {
	s.db.Lock()
	s.fresh = map[Hash]bool{}
	s.db.Unlock()
	return func() {
		s.db.Lock()
		s.fresh = nil
		s.db.Unlock()
	}
}

// Sweep deletes the contents that nothing refers to. referenced adds those that are referred
// to; adding too many is safe. Contents that build on deleted ones are stored anew first, and
// frames of which too little is still needed are rewritten. Each chunk is a step of its own,
// so a kill only leaves contents for the next sweep. s is locked.
func (s *Store) Sweep(ctx context.Context, which Waste, referenced func(add func(Hash)) error) (Report, error) {
	var r Report
	defer s.watch()()
	live, err := NewSet(referenced)
	if err != nil {
		return r, fmt.Errorf("sweep: %w", err)
	}
	dead := map[Hash]Hash{} // with the base of each
	var orphans []Hash
	err = s.eachBlob(func(h Hash, hd header) error {
		switch {
		case !live.Has(h):
			dead[h] = hd.base
		case hd.based() && !live.Has(hd.base):
			orphans = append(orphans, h)
		}
		return ctx.Err()
	})
	if err != nil {
		return r, fmt.Errorf("sweep: %w", err)
	}
	if len(dead) == 0 {
		return r, nil
	}
	for part := range slices.Chunk(orphans, chunk/8) {
		if err := cmp.Or(ctx.Err(), s.rebasePlain(part, &r)); err != nil {
			return r, fmt.Errorf("sweep: %w", err)
		}
	}
	for part := range slices.Chunk(lastFirst(dead), chunk) {
		if err := cmp.Or(ctx.Err(), s.dropBlobs(part, &r)); err != nil {
			return r, fmt.Errorf("sweep: %w", err)
		}
	}
	if err := s.Refit(ctx, which, &r); err != nil {
		return r, fmt.Errorf("sweep: %w", err)
	}
	return r, nil
}

// lastFirst sorts contents so that each comes before its base, and otherwise by key, because
// neighbours lie in one block. So what is left at any moment can be read, and is still of use
// if the same content is stored again meanwhile.
func lastFirst(dead map[Hash]Hash) []Hash {
	type doomed struct {
		hash  Hash
		level int // length of its chain of bases in dead
	}
	all := make([]doomed, 0, len(dead))
	for h, at := range dead {
		d := doomed{hash: h}
		for d.level < 2*maxLinks { // damage may have made a cycle
			base, ok := dead[at]
			if !ok {
				break
			}
			at = base
			d.level++
		}
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b doomed) int {
		return cmp.Or(cmp.Compare(b.level, a.level), bytes.Compare(a.hash[:], b.hash[:]))
	})
	out := make([]Hash, len(all))
	for i, d := range all {
		out[i] = d.hash
	}
	return out
}

// rebasePlain stores contents again without a base.
func (s *Store) rebasePlain(hs []Hash, r *Report) error {
	return s.log.Write(func(b *Batch) error {
		for _, h := range hs {
			hd, err := b.header(h)
			if err != nil || !hd.based() {
				continue
			}
			content, err := b.content(h)
			if err != nil {
				s.opt.Log.Error("cannot store anew", "content", fmt.Sprintf("%x", h[:6]), "err", err)
				continue
			}
			ph, payload, err := s.codecs.plain(content)
			if err != nil {
				return err
			}
			ph.pieces = hd.pieces
			b.pend(h, &pending{header: ph, payload: payload, content: content, was: &hd})
			r.Rebased++
		}
		return nil
	})
}

// dropBlobs deletes contents, unless they have come into use meanwhile.
func (s *Store) dropBlobs(hs []Hash, r *Report) error {
	return s.log.Write(func(b *Batch) error {
		needed := map[Hash]bool{}
		for h := range s.fresh {
			// Its bases are needed as well, down to the end of the chain.
			for at, n := h, 0; n < 2*maxLinks && !needed[at]; n++ {
				needed[at] = true
				hd, err := b.header(at)
				if err != nil || !hd.based() {
					break
				}
				at = hd.base
			}
		}
		for _, h := range hs {
			if needed[h] {
				continue
			}
			n, err := b.Drop(h)
			if errors.Is(err, ErrPruned) {
				continue
			}
			if err != nil {
				return err
			}
			r.Blobs++
			r.Bytes += n
		}
		return nil
	})
}
