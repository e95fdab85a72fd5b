package remote

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"cachebro/store"
	"cachebro/store/portable"
)

// Checked is the result of Fsck.
type Checked struct {
	Machines int      `json:"machines"`
	Segments int      `json:"segments"`
	Problems []string `json:"problems,omitempty"`
	// Dropped is the number of segments whose contents Prune has removed.
	Dropped int `json:"dropped"`
	// Unnamed is the number of objects that no head names, because their sender was killed or is
	// still sending.
	Unnamed      int   `json:"unnamed"`
	UnnamedBytes int64 `json:"unnamed_bytes"`
	// Unread is the number of objects of machines whose head or lists cannot be read. It is not known
	// which of them a history needs.
	Unread      int   `json:"unread"`
	UnreadBytes int64 `json:"unread_bytes"`
	Foreign     int   `json:"foreign"` // number of objects that cachebro did not write
	// Locked is the number of machines whose data no given key decrypts. Only the names, sizes and
	// hashes of their data were checked.
	Locked int `json:"locked"`
}

// Fsck compares the objects in the bucket with the heads. It checks the hash of each list and log,
// and that each log follows the previous one. It checks the size of the object with a segment's
// contents. If whole is set, it also checks the hash of this object and of each content in it.
func (b *Bucket) Fsck(ctx context.Context, whole bool) (r Checked, err error) {
	objects, named, count := map[string]object{}, map[string]bool{"machines": true}, map[string]int{}
	var heads []string
	r.Foreign, err = b.list(ctx, func(o object) error {
		objects[o.key] = o
		if o.machine != "" {
			count[o.machine]++
		}
		if o.kind == "heads" {
			heads = append(heads, o.machine)
		}
		return nil
	})
	if err != nil {
		return r, err
	}
	all, _, err := b.machines(ctx)
	err = r.note(ctx, "machines", err)
	if err != nil {
		return r, err
	}
	for _, id := range all.unlisted(heads) {
		r.Problems = append(r.Problems, fmt.Sprintf("%s: %v", id, ErrUnlisted))
	}
	for _, m := range all.Machines {
		count[m.ID] += 0
	}
	read := map[string]bool{}
	for _, id := range slices.Sorted(maps.Keys(count)) {
		h, err := b.Head(ctx, id)
		named[headKey(id)] = true
		switch {
		case err == nil:
			r.Machines++
			err = b.fsck(ctx, h, objects, named, whole, &r)
		case errors.Is(err, ErrMissing) && count[id] == 0: // the machine has sent nothing yet
			continue
		case errors.Is(err, ErrMissing):
			err = fmt.Errorf("%w, so its history cannot be read (unless the machine is just sending for the first time)", err)
		}
		read[id] = err == nil
		err = r.note(ctx, id, err)
		if err != nil {
			return r, err
		}
	}
	for key, o := range objects {
		switch {
		case named[key]:
		case read[o.machine]:
			r.Unnamed++
			r.UnnamedBytes += o.size
		default:
			r.Unread++
			r.UnreadBytes += o.size
		}
	}
	return r, nil
}

// note records a problem of the bucket's data. It returns any other error, because such an error
// prevented the check.
func (r *Checked) note(ctx context.Context, of string, err error) error {
	for _, kind := range []error{ErrMissing, ErrForged, ErrLost, store.ErrNewer, portable.ErrStream} {
		if errors.Is(err, kind) && ctx.Err() == nil {
			r.Problems = append(r.Problems, fmt.Sprintf("%s: %v", of, err))
			return nil
		}
	}
	return err
}

// fsck checks what one machine has sent.
func (b *Bucket) fsck(ctx context.Context, h Head, objects map[string]object, named map[string]bool, whole bool, r *Checked) error {
	id := h.Machine.ID
	segs, lists, err := b.listed(ctx, h, 0)
	if err != nil {
		return err
	}
	pieces, err := b.piecesOf(ctx, h, segs)
	if err != nil {
		return err
	}
	if h.Base != nil { // the base's own segments are checked with the base
		_, err := b.pieces(ctx, h)
		if err := r.note(ctx, id, err); err != nil {
			return err
		}
	}
	named[listKey(id, h.Dropped)] = true
	for _, l := range lists {
		named[listKey(id, l)] = true
	}
	locked, previous := false, ""
	for _, p := range pieces {
		r.Segments++
		_, err := b.linked(ctx, p, previous)
		if errors.Is(err, ErrLocked) { // the log is encrypted, but its hash is right
			locked, err = true, nil
		}
		previous = p.Log
		named[logKey(id, p.Log)] = true
		where := fmt.Sprintf("segment %d of %s", p.N, id)
		err = r.note(ctx, where, err)
		if err != nil {
			return err
		}
		if p.Contents == "" {
			continue
		}
		key := contentsKey(id, p.Segment)
		o, there := objects[key]
		switch {
		case !there && p.dropped:
			r.Dropped++
			continue
		case !there:
			_, err = b.getHashed(ctx, key, p.Contents, p.ContentsSize) // the object may have been written meanwhile
		case o.size != p.ContentsSize:
			err = fmt.Errorf("%w: %s has %d bytes, not %d", ErrForged, key, o.size, p.ContentsSize)
		case whole:
			err = b.whole(ctx, p)
		}
		named[key] = true
		if err := r.note(ctx, where, err); err != nil {
			return err
		}
	}
	if locked {
		r.Locked++
	}
	return nil
}

// whole checks the contents of a segment.
func (b *Bucket) whole(ctx context.Context, p piece) error {
	body, err := b.getHashed(ctx, contentsKey(p.machine, p.Segment), p.Contents, p.ContentsSize)
	if err == nil {
		body, err = b.open(body)
	}
	switch {
	case errors.Is(err, ErrLocked): // the contents are encrypted, but their hash is right
		return nil
	case err != nil:
		return err
	}
	return portable.ReadContents(body, maxObject, func(store.Hash, []byte) error { return nil })
}
