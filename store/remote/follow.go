package remote

import (
	"context"
	"fmt"

	"cachebro/store"
	"cachebro/store/portable"
)

// Known is how far a copy of a machine's history goes.
type Known struct {
	N   uint64 `json:"n"` // segments
	Log string `json:"log,omitempty"`
}

// Follow brings a store, which holds a copy of a machine's history up to what is known
// and nothing else, to where a head ends. What the hashes do not vouch for is an error
// and is not stored; what came before it is: reached tells how far the store goes, and
// is what is known the next time. ErrLost: the bucket has less than is known. ErrForged:
// it has something else.
func (b *Bucket) Follow(ctx context.Context, h Head, known Known, s *store.Store, o portable.Options) (reached Known, err error) {
	due, err := b.due(ctx, h, known)
	if err != nil {
		return known, err
	}
	previous, of := known.Log, h.Machine.ID
	for _, p := range due {
		if p.machine != of {
			previous, of = "", p.machine
		}
		contents, log, err := b.fetch(ctx, p, previous)
		if err != nil {
			return known, err
		}
		if err := portable.Append(s, contents, log, o); err != nil {
			return known, fmt.Errorf("segment %d of %s: %w", p.N, p.machine, err)
		}
		previous = p.Log
		if p.machine == h.Machine.ID {
			known = Known{p.N, p.Log}
		}
	}
	return known, nil
}

// due are the segments that a copy lacks.
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
