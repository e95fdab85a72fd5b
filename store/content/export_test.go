package content

import (
	"context"
	"time"

	badger "github.com/dgraph-io/badger/v4"
)

// Access to internals for the tests that use a whole store.

const (
	OffersValid = offersValid
	PackTrailer = packTrailer
	PackMagic   = packMagic
)

// FramesWaste returns the share of the frames' bytes that is not needed.
func (s *Store) FramesWaste() (float64, error) {
	st, err := s.takeInventory(context.Background())
	if err != nil {
		return 0, err
	}
	var raw, live int64
	for _, f := range st.frames {
		raw, live = raw+f.head.raw, live+f.live
	}
	return 1 - float64(live)/float64(max(raw, 1)), nil
}

// Frames returns the numbers of all frames.
func (s *Store) Frames() (ids []uint64, err error) {
	err = s.eachFrame(func(id uint64, _ frameHead) error { ids = append(ids, id); return nil })
	return ids, err
}

// PackFiles returns the pack files and the number of hard links to each.
func (s *Store) PackFiles() map[string]uint64 {
	out := map[string]uint64{}
	for n, links := range s.packLinks() {
		out[s.packPath(n)] = links
	}
	return out
}

// Holds reports whether one of the store's pack files holds a content.
func (s *Store) Holds(h Hash) bool {
	return s.packsHold(context.Background(), s.packsDir(), map[uint32]bool{tagOf(h): true}, map[Hash]bool{h: true})
}

// Offered returns the number of offers that may be the content h. any reports whether there are any
// offers.
func (s *Store) Offered(h Hash) (n int, any bool) {
	o := s.offers.Load()
	return len(o.find(tagOf(h))), o != nil
}

// WithoutSiblings runs fn while the store knows of no siblings.
func (s *Store) WithoutSiblings(fn func()) {
	siblings := s.opt.Siblings
	s.opt.Siblings = nil
	fn()
	s.opt.Siblings = siblings
}

// EndOffersNow calls EndOffers as of a time when all offers have expired.
func (s *Store) EndOffersNow(ctx context.Context, r *Report) error {
	return s.EndOffers(ctx, true, s.opt.Now().Add(2*offersValid+time.Second), r)
}

// DamageNewestFrame makes the head of the newest frame unreadable.
func (s *Store) DamageNewestFrame() error {
	return s.db.Update(func(txn *badger.Txn) error { return txn.Set(keyFrame(s.lastFrame), []byte{0xff}) })
}

// LeaveFrame packs everything and stops as if killed before anything refers to the frame.
func (s *Store) LeaveFrame() (parts int, err error) {
	all, err := s.parcels(context.Background(), header.loose)
	if err != nil {
		return 0, err
	}
	enc, err := newFramer()
	if err != nil {
		return 0, err
	}
	defer enc.close()
	pack, err := s.newPack()
	if err != nil {
		return 0, err
	}
	w, err := s.writeFrame(enc, pack, 1, all)
	if err != nil {
		return 0, err
	}
	return len(all), s.seal(pack, 1, []*written{w})
}
