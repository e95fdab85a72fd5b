package content

import (
	"cmp"
	"slices"
	"time"
)

// offers is the set of contents in the pack files that were adopted from siblings (see Adopt). A
// new content that is in this set is not stored again. The set is immutable.
type offers struct {
	list   []offer // sorted by tag
	frames []offeredFrame
	files  map[packName]bool
	since  time.Time // when the last offers were added
}

// offer is a place in an adopted pack file that may hold a wanted content.
type offer struct {
	tag      uint32
	frame    uint32 // index in frames
	at, size uint32
}

type offeredFrame struct {
	id          uint64
	raw, stored int64
	first       bool // see adopted.first
}

const (
	// maxOffers bounds the number of offers. Each takes 16 bytes of memory.
	maxOffers = 500_000
	// offersValid is how long offers are valid. A project's first scan takes less time.
	offersValid = 10 * time.Minute
)

func (o *offers) has(n packName) bool { return o != nil && o.files[n] }

func (o *offers) count() int {
	if o == nil {
		return 0
	}
	return len(o.list)
}

func (o *offers) find(tag uint32) []offer {
	if o == nil {
		return nil
	}
	from, _ := slices.BinarySearchFunc(o.list, tag, func(x offer, t uint32) int { return cmp.Compare(x.tag, t) })
	to := from
	for to < len(o.list) && o.list[to].tag == tag {
		to++
	}
	return o.list[from:to]
}

// header returns the header of a content stored at the place of the offer.
func (o *offers) header(x offer) header {
	f := o.frames[x.frame]
	from, to := int64(x.at), int64(x.at)+int64(x.size)
	return header{
		enc: encFrame, size: int64(x.size), frame: f.id, at: from,
		stored: f.stored*to/max(f.raw, 1) - f.stored*from/max(f.raw, 1),
	}
}

// with returns a set that also offers the contents of the adopted files packs.
func (o *offers) with(now time.Time, packs []adopted) *offers {
	out := &offers{files: map[packName]bool{}, since: now}
	if o != nil {
		out.list, out.frames = slices.Clone(o.list), slices.Clone(o.frames)
		for n := range o.files {
			out.files[n] = true
		}
	}
	for _, p := range packs {
		out.files[p.name] = true
		for i, fr := range p.frames {
			out.frames = append(out.frames, offeredFrame{p.id + uint64(i), fr.raw, fr.n, p.first})
			at := int64(0)
			for j, tag := range fr.tags {
				out.list = append(out.list, offer{tag, uint32(len(out.frames) - 1), uint32(at), uint32(fr.sizes[j])})
				at += fr.sizes[j]
			}
		}
	}
	slices.SortFunc(out.list, func(a, b offer) int {
		return cmp.Or(cmp.Compare(a.tag, b.tag), cmp.Compare(a.frame, b.frame), cmp.Compare(a.at, b.at))
	})
	return out
}

// retire drops all offers. The next dropFrames removes adopted files that this store does not use.
// The caller holds the lock of s.
func (s *Store) retire() {
	s.db.Lock()
	defer s.db.Unlock()
	s.offers.Store(nil)
}
