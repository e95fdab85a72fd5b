package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"cachebro/store"
	"cachebro/store/leaf/text"
	"cachebro/store/portable"
)

// Heads returns the heads of all machines that have sent something, newest last. These include
// machines that the list of machines lacks, if the bucket may be listed. bad holds an error for the
// list and each head that is damaged. They do not prevent reading the other machines' histories.
func (b *Bucket) Heads(ctx context.Context) (out []Head, bad []error, err error) {
	all, unlisted, refused, err := b.AllMachines(ctx)
	if isBad(err) && refused == nil {
		bad, err = append(bad, err), nil
	}
	if err != nil {
		return nil, nil, err
	}
	for _, id := range unlisted {
		all = append(all, Machine{ID: id})
	}
	for _, m := range all {
		h, err := b.Head(ctx, m.ID)
		switch {
		case err == nil:
			out = append(out, h)
		case isBad(err):
			bad = append(bad, err)
		case !errors.Is(err, ErrMissing):
			return nil, nil, err
		}
	}
	slices.SortStableFunc(out, func(a, b Head) int { return a.Time.Compare(b.Time) })
	return out, bad, nil
}

// isBad reports whether an object was read, but not understood.
func isBad(err error) bool { return errors.Is(err, ErrForged) || errors.Is(err, store.ErrNewer) }

const (
	// maxSegments and maxBases limit what a reader accepts from a bucket.
	maxSegments = 10_000_000
	maxBases    = 64
)

// piece is a segment together with the machine that sent it.
type piece struct {
	machine string
	Segment
	dropped bool     // its contents may be gone
	former  []Former // former machines according to the head, if another machine begins with this segment
}

// piecesOf returns the pieces for segments of a machine.
func (b *Bucket) piecesOf(ctx context.Context, h Head, segs []Segment) ([]piece, error) {
	d, err := b.dropped(ctx, h)
	out := make([]piece, len(segs))
	for i, s := range segs {
		out[i] = piece{machine: h.Machine.ID, Segment: s, dropped: d.has(s.N), former: h.formerly(s.N)}
	}
	return out, err
}

// dropped reads the list of a machine's segments whose contents may be gone.
func (b *Bucket) dropped(ctx context.Context, h Head) (d dropped, err error) {
	if h.Dropped == "" {
		return d, nil
	}
	body, _, err := b.get(ctx, listKey(h.Machine.ID, h.Dropped), maxHead)
	if err == nil && text.Hash(body) != h.Dropped {
		err = fmt.Errorf("%w: the list of dropped segments of %s has another hash", ErrForged, h.Machine.ID)
	}
	if err == nil {
		err = unseal("dropped", listKey(h.Machine.ID, h.Dropped), body, &d)
	}
	if err == nil && d.Machine != h.Machine.ID {
		err = fmt.Errorf("%w: the list of dropped segments of %s belongs to another machine", ErrForged, h.Machine.ID)
	}
	return d, err
}

// drops returns "" if no contents were dropped from a history and its bases. Otherwise it returns a
// string that changes with each drop.
func (b *Bucket) drops(ctx context.Context, h Head) (string, error) {
	all := []string{h.Dropped}
	for depth := 0; h.Base != nil; depth++ {
		if depth == maxBases || !validID(h.Base.Machine) {
			return "", fmt.Errorf("%w: the history of %s has no beginning", ErrForged, h.Machine.ID)
		}
		var err error
		h, err = b.Head(ctx, h.Base.Machine)
		if err != nil {
			return "", err
		}
		all = append(all, h.Dropped)
	}
	out := ""
	for _, d := range slices.Backward(all) {
		out = joinDrops(d, out)
	}
	return out, nil
}

// joinDrops combines the drops of a head with those of its base.
func joinDrops(dropped, base string) string {
	if dropped == "" && base == "" {
		return ""
	}
	return text.Hash([]byte(dropped + "\n" + base))
}

// Latest returns the head of a machine whose history this project will continue. SetOrigin accepts
// only heads from Latest.
func (b *Bucket) Latest(ctx context.Context, machine string) (Head, error) {
	h, err := b.Head(ctx, machine)
	if err != nil {
		return h, err
	}
	drops, err := b.drops(ctx, h)
	if err != nil {
		return h, err
	}
	// A history read from now on does not need contents that were dropped before.
	h, err = b.Head(ctx, machine)
	h.drops = drops
	return h, err
}

// pieces returns all segments of a history and its bases, oldest first.
func (b *Bucket) pieces(ctx context.Context, h Head) (out []piece, err error) {
	for depth := 0; ; depth++ {
		segs, err := b.segments(ctx, h, 0)
		if err != nil {
			return nil, err
		}
		own, err := b.piecesOf(ctx, h, segs)
		if err != nil {
			return nil, err
		}
		out = append(own, out...)
		base := h.Base
		if base == nil {
			return out, nil
		}
		if depth == maxBases || !validID(base.Machine) {
			return nil, fmt.Errorf("%w: the history of %s has no beginning", ErrForged, h.Machine.ID)
		}
		h, err = b.Head(ctx, base.Machine)
		if err != nil {
			return nil, err
		}
		if h.N < base.N {
			return nil, fmt.Errorf("%w: %s has only %d segments now, instead of %d", ErrLost, base.Machine, h.N, base.N)
		}
		h, err = b.cut(ctx, h, base)
		if err != nil {
			return nil, err
		}
	}
}

// cut returns a head as it was when another history was based on it.
func (b *Bucket) cut(ctx context.Context, h Head, base *Base) (Head, error) {
	segs, err := b.segments(ctx, h, 0)
	if err != nil {
		return h, err
	}
	segs = segs[:base.N]
	if base.N > 0 && segs[base.N-1].Log != base.Log {
		return h, fmt.Errorf("%w: segment %d of %s was replaced by another one", ErrForged, base.N, base.Machine)
	}
	h.N, h.Log = base.N, base.Log
	h.List, h.Segments = "", segs
	return h, nil
}

// segments returns the segments of one machine after the first n, in order. It does not read lists
// that contain only earlier segments.
func (b *Bucket) segments(ctx context.Context, h Head, n uint64) ([]Segment, error) {
	segs, _, err := b.listed(ctx, h, n)
	return segs, err
}

// listed returns the segments after the first n, and the hashes of the lists that name them.
func (b *Bucket) listed(ctx context.Context, h Head, n uint64) (segs []Segment, lists []string, err error) {
	parts := [][]Segment{h.Segments}
	count := len(h.Segments)
	first := func() uint64 {
		if l := parts[len(parts)-1]; len(l) > 0 {
			return l[0].N
		}
		return h.N + 1
	}
	for next := h.List; next != "" && (n == 0 || first() > n+1); {
		body, _, err := b.get(ctx, listKey(h.Machine.ID, next), maxHead)
		if err != nil {
			return nil, nil, err
		}
		var l list
		if text.Hash(body) != next {
			return nil, nil, fmt.Errorf("%w: a list of %s has another hash", ErrForged, h.Machine.ID)
		}
		if err := unseal("list", listKey(h.Machine.ID, next), body, &l); err != nil {
			return nil, nil, err
		}
		count += len(l.Segments)
		if len(l.Segments) == 0 || count > maxSegments || l.List != "" && !validHash(l.List) {
			return nil, nil, fmt.Errorf("%w: the lists of %s have no end", ErrForged, h.Machine.ID)
		}
		parts, lists = append(parts, l.Segments), append(lists, next)
		next = l.List
	}
	from := first()
	slices.Reverse(parts)
	all := slices.Concat(parts...)
	if from <= n {
		all = all[min(uint64(len(all)), n+1-from):]
	}
	for i, s := range all {
		if !s.valid() || s.N != n+uint64(i)+1 {
			return nil, nil, fmt.Errorf("%w: segment %d of %s is missing", ErrForged, n+uint64(i)+1, h.Machine.ID)
		}
	}
	if n+uint64(len(all)) != h.N || len(all) > 0 && all[len(all)-1].Log != h.Log {
		return nil, nil, fmt.Errorf("%w: the head of %s does not name its segments", ErrForged, h.Machine.ID)
	}
	return all, lists, nil
}

func (b *Bucket) log(ctx context.Context, p piece) ([]byte, error) {
	body, err := b.getHashed(ctx, logKey(p.machine, p.Log), p.Log, p.LogSize)
	if err != nil {
		return nil, err
	}
	return b.open(body)
}

// Machines returns the machines that write to a project.
func (b *Bucket) Machines(ctx context.Context) ([]Machine, error) {
	all, _, err := b.machines(ctx)
	return all.Machines, err
}

// Head returns the head of a machine, or ErrMissing if the machine has sent nothing yet.
func (b *Bucket) Head(ctx context.Context, machine string) (Head, error) {
	h, _, err := b.head(ctx, machine)
	return h, err
}

// After returns the segments after segment n, whose log is log. It returns ErrLost if the bucket
// has fewer segments, and ErrForged if segment n has another log.
func (b *Bucket) After(ctx context.Context, h Head, n uint64, log string) ([]Segment, error) {
	switch {
	case h.N < n:
		return nil, fmt.Errorf("%w: %s has only %d segments now, instead of %d", ErrLost, h.Machine.ID, h.N, n)
	case h.N == n && h.Log != log:
		return nil, fmt.Errorf("%w: segment %d of %s was replaced by another one", ErrForged, n, h.Machine.ID)
	case h.N == n:
		return nil, nil
	}
	return b.segments(ctx, h, n)
}

// follows parses the link in a segment's log. The link must name the previous log, and the same
// former machines as the head.
func (p piece) follows(joint []byte, previous string) error {
	var l link
	err := json.Unmarshal(joint, &l)
	samePiece := l.Machine == p.machine && l.N == p.N && l.Contents == p.Contents && l.Gen == p.Gen
	if err != nil || !samePiece || l.Previous != previous {
		return fmt.Errorf("%w: segment %d of %s does not follow the one before it", ErrForged, p.N, p.machine)
	}
	if !slices.Equal(l.Former, p.former) {
		return fmt.Errorf("%w: the head of %s and segment %d name different former machines", ErrForged, p.machine, p.N)
	}
	return nil
}

// linked reads the log of a segment and checks that it follows the previous log.
func (b *Bucket) linked(ctx context.Context, p piece, previous string) (log []byte, err error) {
	log, err = b.log(ctx, p)
	if err != nil {
		return nil, err
	}
	joint, err := portable.LinkOf(log)
	if err != nil {
		return nil, err
	}
	return log, p.follows(joint, previous)
}

// fetch reads a segment and checks that it follows the previous one. contents is nil if the segment
// has none or they were dropped.
func (b *Bucket) fetch(ctx context.Context, p piece, previous string) (contents, log []byte, err error) {
	log, err = b.linked(ctx, p, previous)
	if err != nil {
		return nil, nil, err
	}
	if p.Contents != "" {
		contents, err = b.getHashed(ctx, contentsKey(p.machine, p.Segment), p.Contents, p.ContentsSize)
		switch {
		case err == nil:
			contents, err = b.open(contents)
		case p.dropped && errors.Is(err, ErrMissing):
			contents, err = nil, nil
		}
	}
	return contents, log, err
}

// SetOrigin records in a store where its history came from. Sending to that place then continues
// the history. h must come from Latest, called before the history was read.
func SetOrigin(s *store.Store, p Place, h Head) error {
	// The other machine may not have sent its last versions, up to h.Seq. This store gives their
	// numbers to versions of its own, so the base ends at the last version that was sent.
	o := origin{Place: p, Base: Base{Machine: h.Machine.ID, N: h.N, Log: h.Log, Seq: s.Seq(), Drops: h.drops}, Position: portable.Position{Seq: s.Seq()}, Recipients: h.Machine.Recipients()}
	err := s.Raw(func(raw store.Raw) (err error) { o.Position.Moment, err = raw.Moment(); return err })
	if err != nil {
		return err
	}
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return s.KV(bucketState).Set("origin", b)
}
