package remote

import (
	"context"
	"fmt"
	"slices"

	"cachebro/store"
	"cachebro/store/portable"
)

// Known describes how much of a machine's history a copy has.
type Known struct {
	N   uint64 `json:"n"` // segments
	Log string `json:"log,omitempty"`
}

// Follow extends a store that holds exactly a copy of a machine's history up to known. It adds
// everything up to the end named by a head. If data has a wrong hash, Follow returns an error, and
// only the segments before that data are stored. reached is the end of the stored history; pass it
// as known in the next call. Follow returns ErrLost if the history in the bucket ends before known,
// and ErrForged if it contradicts known.
func (b *Bucket) Follow(ctx context.Context, h Head, known Known, s *store.Store, o portable.Options) (reached Known, err error) {
	due, err := b.due(ctx, h, known)
	if err != nil {
		return known, err
	}
	return b.append(ctx, h, known, due, true, s, o)
}

// Fill stores the whole history up to a head in an empty store. A missing content is an error,
// unless contents were dropped from the bucket.
func (b *Bucket) Fill(ctx context.Context, h Head, s *store.Store, o portable.Options) error {
	due, err := b.pieces(ctx, h)
	if err != nil {
		return err
	}
	if len(due) == 0 {
		return fmt.Errorf("%w: nothing was sent", ErrMissing)
	}
	short := slices.ContainsFunc(due, func(p piece) bool { return p.dropped })
	_, err = b.append(ctx, h, Known{}, due, short, s, o)
	return err
}

// append adds segments to a store. For short, see portable.Append.
func (b *Bucket) append(ctx context.Context, h Head, known Known, due []piece, short bool, s *store.Store, o portable.Options) (Known, error) {
	previous, of := known.Log, h.Machine.ID
	for _, p := range due {
		if p.machine != of {
			previous, of = "", p.machine
		}
		contents, log, err := b.fetch(ctx, p, previous)
		if err != nil {
			return known, err
		}
		if err := portable.Append(s, contents, log, short, o); err != nil {
			return known, fmt.Errorf("segment %d of %s: %w", p.N, p.machine, err)
		}
		previous = p.Log
		if p.machine == h.Machine.ID {
			known = Known{p.N, p.Log}
		}
	}
	return known, nil
}

// due returns the segments that a copy lacks.
func (b *Bucket) due(ctx context.Context, h Head, known Known) ([]piece, error) {
	if known.N == 0 {
		return b.pieces(ctx, h)
	}
	segs, err := b.After(ctx, h, known.N, known.Log)
	if err != nil || len(segs) == 0 {
		return nil, err
	}
	return b.piecesOf(ctx, h, segs)
}
