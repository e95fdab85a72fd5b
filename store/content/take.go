package content

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"time"

	"cachebro/store/db"
	"cachebro/store/space"

	badger "github.com/dgraph-io/badger/v4"
)

// want is a content that is here and may be in a sibling's pack file too.
type want struct {
	hash   Hash
	size   int64
	packed bool // in a pack file of our own
}

// adoptUseful adopts the siblings' pack files that hold enough of what is loose here,
// or of what is packed here a second time, and takes those contents from there. Where
// two stores packed the same contents, the one whose directory sorts last gives up
// its own; otherwise they would exchange them for ever. It returns true when
// something was taken. s is locked.
func (s *Store) adoptUseful(ctx context.Context, r *Report) bool {
	if s.alone() {
		return false
	}
	cs := s.candidates(ctx)
	if len(cs) == 0 {
		return false
	}
	st, err := s.takeStock(ctx)
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
		// It only saves space: what was to be done goes on without.
		s.opt.Log.Warn("share pack files with sibling worktrees", "err", err)
	}
	return some
}

// useful: the file holds enough of what is wanted.
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
	return found > 0 && found >= min(adoptLeast, all/2)
}

// takeOffers has the contents that are wanted and on offer taken from there,
// after each was read and its hash compared.
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
	ordered := make([]*written, 0, len(frames))
	for _, w := range frames {
		ordered = append(ordered, w)
	}
	slices.SortFunc(ordered, func(a, b *written) int { return cmp.Compare(a.id, b.id) })
	for _, w := range ordered {
		if err := cmp.Or(ctx.Err(), s.verify(w)); err != nil {
			return err
		}
	}
	return s.point(ordered, r)
}

// verify keeps the parts of a frame that are what they should be.
func (s *Store) verify(w *written) error {
	var raw []byte
	err := s.db.View(func(txn *badger.Txn) (err error) { raw, err = s.frame(txn, w.id); return })
	parts, at := w.parts, w.at
	w.parts, w.at = nil, nil
	if errors.Is(err, db.ErrDamaged) {
		return nil // not even an empty content is in it
	}
	for i, p := range parts {
		end := at[i] + p.size
		if end <= int64(len(raw)) && sha256.Sum256(raw[at[i]:end]) == p.hash {
			w.parts, w.at = append(w.parts, p), append(w.at, at[i])
		}
	}
	return err
}

// EndOffers ends offers that have stood long enough. When it is due, what siblings
// have is taken from them, and what they have given up is thinned out here. s is
// locked.
func (s *Store) EndOffers(ctx context.Context, due bool, now time.Time, r *Report) error {
	if o := s.offers.Load(); o != nil && (now.Sub(o.since) > offersLast || now.Before(o.since)) {
		s.retire()
		if err := s.dropFrames(ctx); err != nil {
			return err
		}
	}
	if !due {
		return nil
	}
	s.adoptUseful(ctx, r)
	if err := s.Refit(ctx, WasteAlone, r); err != nil && !errors.Is(err, space.ErrFull) {
		return err
	}
	return nil
}
