package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Purged says what Purge did and what it could not reach.
type Purged struct {
	Versions int
	Blobs    int
	Bytes    int64
	Rebased  int
	// Elsewhere are paths that hold, or held, the same contents; those stay.
	Elsewhere []Path
	// Unreached says, in words, where the content may still be.
	Unreached []string
}

// Purge takes the contents of a path, and of all below it, out of the store:
// of every version, the newest included. What was stored as a difference to
// them is stored anew, and the files that held them are rewritten. The versions
// stay in the log without content.
func (s *Store) Purge(ctx context.Context, path Path) (Purged, error) {
	s.tidyMu.Lock()
	defer s.tidyMu.Unlock()
	var p Purged
	var seqs []uint64
	mine := map[Hash]bool{}
	if err := s.scan(0, false, func(v Version) bool {
		if inside(v.Path, path) && v.Blob != (Hash{}) {
			seqs = append(seqs, v.Seq)
			mine[v.Blob] = true
		}
		return ctx.Err() == nil
	}, nil); err != nil {
		return p, err
	}
	if len(seqs) == 0 {
		return p, fmt.Errorf("no content of %q is kept: %w", string(path), ErrNotFound)
	}
	if err := s.scan(0, false, func(v Version) bool {
		if mine[v.Blob] && !inside(v.Path, path) && !slices.Contains(p.Elsewhere, v.Path) {
			p.Elsewhere = append(p.Elsewhere, v.Path)
		}
		return ctx.Err() == nil
	}, nil); err != nil {
		return p, err
	}
	for part := range slices.Chunk(seqs, chunk) {
		if err := errors.Join(ctx.Err(), s.dropContents(part, "purged")); err != nil {
			return p, fmt.Errorf("purge: %w", err)
		}
		p.Versions += len(part)
	}
	r, err := s.sweep(ctx, 1) // no frame keeps a byte of it
	p.Blobs, p.Bytes, p.Rebased = r.Blobs, r.Bytes, r.Rebased
	if err == nil {
		err = s.compact(ctx, wasteNone)
	}
	if err != nil {
		return p, fmt.Errorf("purge: %w", err)
	}
	p.Unreached = append(p.Unreached,
		"blocks that the file system or an SSD has freed but not overwritten yet",
		"backups and snapshots of the state directory",
		"the file itself, which is only in the project")
	if len(p.Elsewhere) > 0 {
		p.Unreached = append(p.Unreached, fmt.Sprintf("%d other paths with the same content", len(p.Elsewhere)))
	}
	return p, nil
}
