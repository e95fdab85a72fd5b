package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"cachebro/store"
	"cachebro/store/leaf/text"
	"cachebro/store/portable"
)

// What Prune drops, and why it never drops needed contents
//
// Logs are never dropped, so each history keeps its versions, their numbers and its chain of
// hashes. Prune drops the contents of old segments, which were sent longer ago than a given age. It
// keeps the contents of an old segment if a version in it has a content that is still needed. Each
// version in a younger segment needs its content, and so does the newest version of each path in
// the old segments. This is computed for each history, because a history that is based on another
// one has different newest versions. Ages are measured by the server's clock.
//
// Dropping takes two steps. First a segment is marked: its number is put into the list that the
// head names as Dropped, and Gen grows. The head is written with If-Match. If an active sender
// writes its head first, the mark fails. Otherwise the sender notices the mark, and sends again the
// contents that it needs. After a grace period for concurrent readers, all heads are read again.
// The marked contents that no history needs are then deleted.
//
// No name is ever reused, because Gen is part of the name or bytes of every object written after a
// mark. If an object is older than a mark and the head written by the mark does not name it, no
// later head will. Such an object, for example one left by a killed sender, may be deleted at any
// time.

// Durations that Prune uses besides the age.
const (
	// Grace is how long marked objects are kept.
	Grace = 24 * time.Hour
	// skew is the largest difference between two clocks of the same server.
	skew = 15 * time.Minute
)

// PruneOptions define what Prune drops.
type PruneOptions struct {
	Age   time.Duration // newer contents are kept
	Grace time.Duration // 0: Grace
	Dry   bool          // only report what would be done
}

// Pruned describes what Prune did or, if Dry is set, would do.
type Pruned struct {
	Marked       int   `json:"marked"` // segments whose contents will be deleted after the grace period
	MarkedBytes  int64 `json:"marked_bytes"`
	Waiting      int   `json:"waiting"` // segments marked earlier and still in the grace period
	Deleted      int   `json:"deleted"` // number of deleted objects
	DeletedBytes int64 `json:"deleted_bytes"`
	// Busy lists machines that sent something during the mark. They are marked next time.
	Busy []string `json:"busy,omitempty"`
	// Kept lists machines from which nothing was dropped, because a history that needs their data
	// was not readable.
	Kept []string `json:"kept,omitempty"`
}

// census is an inventory of a bucket.
type census struct {
	objects map[string]object
	heads   map[string]Head
	etags   map[string]string
	now     time.Time // according to the server's clock
	needed  map[string]bool
	held    map[string]error // machines from which nothing may be dropped, with the reason
}

// census lists the bucket and then reads all heads. Because of this order, an object that no head
// names may belong to a segment being sent, but never to one already sent.
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
			return c, fmt.Errorf("read %s: %w, or no date", headKey(id), errNoETag)
		}
		c.heads[id], c.etags[id] = h, st.etag
		if c.now.IsZero() || st.now.Before(c.now) {
			c.now = st.now
		}
	}
	return c, nil
}

// need records which contents a history needs. Segments sent before the given time are old.
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
		log, err := b.linked(ctx, p, previous)
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

// Prune drops contents that no history needs, as described above. It marks contents, and deletes
// contents that an earlier call marked.
func (b *Bucket) Prune(ctx context.Context, o PruneOptions) (r Pruned, err error) {
	o.Grace = cmp.Or(o.Grace, Grace)
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
	for _, id := range slices.Sorted(maps.Keys(c.heads)) {
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

// pruneOne deletes one machine's contents whose grace period is over, and then marks more.
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
	left := false // whether there are old objects that no head names; a mark would make them deletable
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
		return nil // one mark at a time, because a new mark would start the grace period of the old one again
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

// mark writes a head with a new Gen. If more is set, the head also has a new list of dropped
// segments.
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
