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

// chunk is the number of keys that one step of background work changes while it holds the writer's
// lock. Apply therefore waits a few milliseconds at most.
const chunk = 200

// Report counts what was dropped and moved.
type Report struct {
	Blobs   int   // contents dropped
	Bytes   int64 // their stored size
	Rebased int   // contents stored again because their base was dropped
	Packed  int   // contents put into frames
	// Loosened is the stored size of the packed contents before they were packed.
	Loosened int64
}

// Short returns the first 8 bytes of a hash. Large sets store only these. A collision may keep an
// unreferenced content, but never deletes a referenced one.
func Short(h Hash) uint64 { return binary.BigEndian.Uint64(h[:8]) }

// Set is a sorted set of contents, by Short. An entry takes 8 bytes; a map would take 40.
type Set []uint64

// NewSet returns the set of the hashes that fill adds, without the zero Hash.
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

// Has reports whether the set has a content. A collision may cause a wrong true.
func (hs Set) Has(h Hash) bool { _, ok := slices.BinarySearch(hs, Short(h)); return ok }

// watch makes Apply record the contents that it refers to from now on. A sweep must not delete
// contents that were referenced after it read the log.
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

// Sweep deletes the unreferenced contents. referenced calls add with each referenced content; extra
// contents do no harm. Before Sweep deletes contents, it stores the deltas against them again
// without a base. Frames with too much waste are rewritten. Each chunk is committed separately, so
// a killed sweep only leaves work for the next one. The caller holds the lock of s.
func (s *Store) Sweep(ctx context.Context, which Waste, referenced func(add func(Hash)) error) (Report, error) {
	var r Report
	defer s.watch()()
	live, err := NewSet(referenced)
	if err != nil {
		return r, fmt.Errorf("sweep: %w", err)
	}
	dead := map[Hash]Hash{} // maps each content to its base
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
	if err := s.refit(ctx, which, &r); err != nil {
		return r, fmt.Errorf("sweep: %w", err)
	}
	return r, nil
}

// lastFirst sorts contents so that each comes before its base. So every content can be read until
// it is deleted, and can still be referenced until then. Contents of one level are in key order,
// because neighbouring keys share a block.
func lastFirst(dead map[Hash]Hash) []Hash {
	type doomed struct {
		hash  Hash
		level int // length of the content's chain of bases in dead
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
				s.opt.Log.Error("cannot store a content again without its base", "content", fmt.Sprintf("%x", h[:6]), "err", err)
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

// dropBlobs deletes contents that were not referenced meanwhile.
func (s *Store) dropBlobs(hs []Hash, r *Report) error {
	return s.log.Write(func(b *Batch) error {
		needed := map[Hash]bool{}
		for h := range s.fresh {
			// All bases of its chain are needed as well.
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
