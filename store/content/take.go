package content

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"slices"
	"time"

	"cachebro/store/db"
	"cachebro/store/space"

	badger "github.com/dgraph-io/badger/v4"
)

// want is a content of this store that a pack file of a sibling may hold.
type want struct {
	hash   Hash
	size   int64
	packed bool // already in a pack file of this store
}

// adoptUseful adopts the siblings' pack files that hold enough of this store's contents, loose or
// packed. These contents then refer to the adopted files. If two stores packed the same contents,
// only the store whose directory sorts last drops its own copy. If both did, they would exchange
// copies forever. adoptUseful returns true if it adopted a file. The caller holds the lock of s.
func (s *Store) adoptUseful(ctx context.Context, r *Report) bool {
	if s.alone() {
		return false
	}
	cs := s.candidates(ctx)
	if len(cs) == 0 {
		return false
	}
	st, err := s.takeInventory(ctx)
	wants := map[uint32][]want{}
	if err == nil {
		err = s.eachBlob(func(h Hash, hd header) error {
			f := st.frames[hd.frame]
			packed := hd.enc == encFrame && f != nil && !f.shared()
			if hd.loose() || packed {
				wants[tagOf(h)] = append(wants[tagOf(h)], want{h, hd.size, packed})
			}
			return ctx.Err()
		})
	}
	var some bool
	if err == nil {
		some, err = s.adopt(ctx, cs, func(c candidate) bool { return c.useful(wants, c.dir < s.dir) })
	}
	if some && err == nil {
		err = s.takeOffers(ctx, wants, r)
	}
	if err != nil && ctx.Err() == nil {
		// Sharing only saves space, so a failure does not stop the caller.
		s.opt.Log.Warn("share pack files with sibling worktrees", "err", err)
	}
	return some
}

// useful reports whether the file holds enough of the wanted contents. Packed ones count if
// evenPacked is set.
func (c *candidate) useful(wants map[uint32][]want, evenPacked bool) bool {
	found, all := int64(0), int64(0)
	for _, fr := range c.frames {
		all += fr.raw
		for i, tag := range fr.tags {
			if slices.ContainsFunc(wants[tag], func(w want) bool { return w.size == fr.sizes[i] && (evenPacked || !w.packed) }) {
				found += fr.sizes[i]
			}
		}
	}
	return found > 0 && found >= min(minAdopted, all/2)
}

// takeOffers makes wanted contents refer to the offered copies. It reads each copy first and
// compares its hash.
func (s *Store) takeOffers(ctx context.Context, wants map[uint32][]want, r *Report) error {
	o := s.offers.Load()
	frames := map[uint32]*written{}
	taken := map[Hash]bool{}
	for _, x := range o.list {
		for _, w := range wants[x.tag] {
			if w.size != int64(x.size) || taken[w.hash] || w.packed && !o.frames[x.frame].first {
				continue
			}
			taken[w.hash] = true
			f := frames[x.frame]
			if f == nil {
				of := o.frames[x.frame]
				f = &written{id: of.id, raw: of.raw, stored: of.stored}
				frames[x.frame] = f
			}
			f.parts, f.at = append(f.parts, parcel{hash: w.hash, size: w.size}), append(f.at, int64(x.at))
		}
	}
	ordered := slices.SortedFunc(maps.Values(frames), func(a, b *written) int { return cmp.Compare(a.id, b.id) })
	for _, w := range ordered {
		if err := cmp.Or(ctx.Err(), s.verify(w)); err != nil {
			return err
		}
	}
	return s.referToFrames(ordered, r)
}

// verify drops the parts of a frame whose hash is wrong.
func (s *Store) verify(w *written) error {
	var raw []byte
	err := s.db.View(func(txn *badger.Txn) (err error) { raw, err = s.frame(txn, w.id); return })
	parts, at := w.parts, w.at
	w.parts, w.at = nil, nil
	if errors.Is(err, db.ErrDamaged) {
		return nil // the frame cannot hold any content, not even an empty one
	}
	for i, p := range parts {
		end := at[i] + p.size
		if end <= int64(len(raw)) && sha256.Sum256(raw[at[i]:end]) == p.hash {
			w.parts, w.at = append(w.parts, p), append(w.at, at[i])
		}
	}
	return err
}

// EndOffers ends offers that are older than offersValid. If due is set, it also adopts contents
// from the siblings' pack files, and rewrites wasteful files that no sibling shares any more. The
// caller holds the lock of s.
func (s *Store) EndOffers(ctx context.Context, due bool, now time.Time, r *Report) error {
	if o := s.offers.Load(); o != nil && (now.Sub(o.since) > offersValid || now.Before(o.since)) {
		s.retire()
		if err := s.dropFrames(ctx); err != nil {
			return err
		}
	}
	if !due {
		return nil
	}
	s.adoptUseful(ctx, r)
	if err := s.refit(ctx, WasteAlone, r); err != nil && !errors.Is(err, space.ErrFull) {
		return err
	}
	return nil
}
