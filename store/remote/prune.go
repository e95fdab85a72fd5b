package remote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"cachebro/store"
	"cachebro/store/leaf/text"
	"cachebro/store/portable"
)

// What Prune drops, and why nothing that is needed goes
//
// All logs stay, so that each history keeps its versions, their numbers and its chain of
// hashes. What goes are contents of segments that were sent before an age, when no
// version in them is newer than that or was still its path's newest one then. A history
// that goes on behind another needs of that one what its own files were at that time,
// and counts for itself. Ages are by the server's clock.
//
// It goes in two steps. A segment is first marked: its number is put into the list that
// the head names as Dropped, and Gen grows. The head is written by If-Match, so a sender
// is either before the mark, which is then not made, or learns of it, and sends what it
// needs again from there on. A grace period later, for those who read meanwhile, all
// heads are read once more, and what is marked and still needed by none is deleted.
//
// No name comes twice: Gen is part of what the objects after a mark are called, or of
// their bytes. What was there before a mark and is not named by the head after it will
// never be named, however late somebody deletes it. The same holds for what a killed
// sender left behind.

// Prune's times, beside the age.
const (
	// Grace is how long what is marked stays.
	Grace = 24 * time.Hour
	// skew is how far two clocks of one server may differ.
	skew = 15 * time.Minute
)

// PruneOptions say what Prune drops.
type PruneOptions struct {
	Age   time.Duration // what was sent within it stays
	Grace time.Duration // 0: Grace
	Dry   bool          // only say what would be done
}

// Pruned is what Prune did, or with Dry would do.
type Pruned struct {
	Marked       int   `json:"marked"` // segments whose contents go after the grace period
	MarkedBytes  int64 `json:"marked_bytes"`
	Waiting      int   `json:"waiting"` // segments marked before, which wait for it
	Deleted      int   `json:"deleted"` // objects
	DeletedBytes int64 `json:"deleted_bytes"`
	// Busy are machines that sent something at the moment of the mark: next time.
	Busy []string `json:"busy,omitempty"`
	// Kept are machines of which nothing was dropped, because a history that needs
	// them could not be read.
	Kept []string `json:"kept,omitempty"`
}

// census is what a bucket holds.
type census struct {
	objects map[string]object
	heads   map[string]Head
	etags   map[string]string
	now     time.Time // by the server's clock
	needed  map[string]bool
	held    map[string]error // machines: why nothing of theirs may go
}

// census lists the bucket, then reads all heads: an object that no head names may be of
// a segment that is being sent, but never of one that was sent before.
func (b *Bucket) census(ctx context.Context) (c census, err error) {
	c = census{objects: map[string]object{}, heads: map[string]Head{}, etags: map[string]string{}, needed: map[string]bool{}, held: map[string]error{}}
	ids := map[string]bool{}
	_, err = b.list(ctx, func(o object) error {
		c.objects[o.key] = o
		if o.kind == "heads" {
			ids[o.machine] = true
		}
		return nil
	})
	if err != nil {
		return c, err
	}
	all, _, err := b.machines(ctx)
	if err != nil {
		return c, err
	}
	for _, m := range all.Machines {
		ids[m.ID] = true
	}
	for id := range ids {
		h, st, err := b.head(ctx, id)
		if errors.Is(err, ErrMissing) {
			continue
		}
		if err != nil {
			return c, err
		}
		if st.now.IsZero() || st.etag == "" {
			return c, fmt.Errorf("read %s: %w, or no date", headKey(id), errUnnamed)
		}
		c.heads[id], c.etags[id] = h, st.etag
		if c.now.IsZero() || st.now.Before(c.now) {
			c.now = st.now
		}
	}
	return c, nil
}

// need finds the contents that a history needs of what was sent before a time.
func (b *Bucket) need(ctx context.Context, c *census, h Head, before time.Time) error {
	pieces, err := b.pieces(ctx, h)
	if err != nil {
		return err
	}
	newest := map[store.Path]store.Hash{}
	needed := map[store.Hash]bool{}
	holds := make([][]store.Hash, len(pieces))
	previous, of := "", ""
	for i, p := range pieces {
		if p.machine != of {
			previous, of = "", p.machine
		}
		log, _, err := b.linked(ctx, p, previous)
		if err != nil {
			return err
		}
		previous = p.Log
		o, listed := c.objects[logKey(p.machine, p.Log)]
		old := listed && o.at.Before(before)
		is, err := portable.Read(log)
		if err != nil {
			return fmt.Errorf("segment %d of %s: %w", p.N, p.machine, err)
		}
		for _, v := range is.Versions {
			if !old {
				needed[v.Blob] = true
				continue
			}
			holds[i] = append(holds[i], v.Blob)
			newest[v.Path] = v.Blob
		}
		if !old && p.Contents != "" {
			c.needed[contentsKey(p.machine, p.Segment)] = true
		}
	}
	for _, hash := range newest {
		needed[hash] = true
	}
	delete(needed, store.Hash{})
	for i, p := range pieces {
		if p.Contents != "" && slices.ContainsFunc(holds[i], func(h store.Hash) bool { return needed[h] }) {
			c.needed[contentsKey(p.machine, p.Segment)] = true
		}
	}
	return nil
}

// Prune drops contents that no history needs any more: see above. What it marked is
// deleted by a later call.
func (b *Bucket) Prune(ctx context.Context, o PruneOptions) (r Pruned, err error) {
	if o.Grace == 0 {
		o.Grace = Grace
	}
	c, err := b.census(ctx)
	if err != nil {
		return r, err
	}
	for _, h := range c.heads {
		err := b.need(ctx, &c, h, c.now.Add(-o.Age))
		if err == nil {
			continue
		}
		if ctx.Err() != nil || errors.Is(err, ErrLocked) {
			return r, err
		}
		for depth := 0; depth <= maxBases; depth++ {
			c.held[h.Machine.ID] = err
			if h.Base == nil {
				break
			}
			c.held[h.Base.Machine] = err
			h = c.heads[h.Base.Machine]
		}
	}
	ids := make([]string, 0, len(c.heads))
	for id := range c.heads {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		if err := c.held[id]; err != nil {
			r.Kept = append(r.Kept, fmt.Sprintf("%s: %v", id, err))
			continue
		}
		if err := b.pruneOne(ctx, &c, id, o, &r); err != nil {
			return r, err
		}
	}
	return r, nil
}

// pruneOne deletes what is due of a machine, then marks what is to go.
func (b *Bucket) pruneOne(ctx context.Context, c *census, id string, o PruneOptions, r *Pruned) error {
	h := c.heads[id]
	segs, lists, err := b.listed(ctx, h, 0)
	if err != nil {
		return err
	}
	d, err := b.dropped(ctx, h)
	if err != nil {
		return err
	}
	due := !h.Marked.IsZero() && c.now.Sub(h.Marked) >= o.Grace
	named := map[string]bool{headKey(id): true, listKey(id, h.Dropped): true}
	for _, l := range lists {
		named[listKey(id, l)] = true
	}
	fresh := dropped{Machine: id, Gen: h.Gen + 1, Segments: slices.Clone(d.Segments)}
	more, moreBytes := 0, int64(0)
	for _, s := range segs {
		named[logKey(id, s.Log)] = true
		if s.Contents == "" {
			continue
		}
		key := contentsKey(id, s)
		named[key] = true
		there, ok := c.objects[key]
		if !ok || c.needed[key] {
			continue
		}
		switch {
		case !d.has(s.N):
			fresh.add(s.N)
			more++
			moreBytes += there.size
		case !due:
			r.Waiting++
		default:
			if err := b.delete(ctx, there, o, r); err != nil {
				return err
			}
		}
	}
	left := false // something that no head names is to be marked
	for key, one := range c.objects {
		if one.machine != id || named[key] {
			continue
		}
		switch {
		case h.Marked.IsZero() || one.at.Add(skew).After(h.Marked):
			left = left || c.now.Sub(one.at) >= max(o.Grace, skew+time.Minute)
		case due:
			if err := b.delete(ctx, one, o, r); err != nil {
				return err
			}
		}
	}
	if !h.Marked.IsZero() && !due || more == 0 && !left {
		return nil // one mark at a time: a new one would put the old one off
	}
	if !o.Dry {
		if err := b.mark(ctx, h, c.etags[id], c.now, fresh, more > 0); errors.Is(err, errChanged) {
			r.Busy = append(r.Busy, id)
			return nil
		} else if err != nil {
			return err
		}
	}
	r.Marked += more
	r.MarkedBytes += moreBytes
	return nil
}

func (b *Bucket) delete(ctx context.Context, o object, how PruneOptions, r *Pruned) error {
	r.Deleted++
	r.DeletedBytes += o.size
	if how.Dry {
		return nil
	}
	return b.remove(ctx, o.key)
}

// mark writes a head with a new list of what was dropped, if there is more of it.
func (b *Bucket) mark(ctx context.Context, h Head, etag string, now time.Time, d dropped, more bool) error {
	h.Gen, h.Marked = d.Gen, now
	if more {
		body := seal("dropped", h.Machine.Sealed != "", d)
		if len(body) > maxHead {
			return fmt.Errorf("%s has too many segments to prune", h.Machine.Called())
		}
		h.Dropped = text.Hash(body)
		if _, err := b.put(ctx, listKey(d.Machine, h.Dropped), body, always); err != nil {
			return err
		}
	}
	_, err := b.put(ctx, headKey(d.Machine), h.body(), etag)
	return err
}
