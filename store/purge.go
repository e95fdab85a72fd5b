package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"cachebro/store/db"
	"cachebro/store/space"

	badger "github.com/dgraph-io/badger/v4"
)

// Purged says what Purge did and what it could not reach.
type Purged struct {
	Versions int
	Blobs    int
	Bytes    int64
	Rebased  int
	// Spooled is how many bytes of contents were overwritten where they lay before
	// they came into the store.
	Spooled int64
	// Waste is how many bytes of contents that nothing here referred to were in
	// pack files, and are no more.
	Waste int64
	// Elsewhere are paths that hold, or held, the same contents; those stay.
	Elsewhere []Path
	// Siblings are stores of other worktrees that hold the same contents in
	// their pack files; Others those that may hold them outside.
	Siblings, Others []Sibling
	// Unreached says, in words, where the content may still be.
	Unreached []string
}

// Purge takes the contents of a path, and of all below it, out of the store:
// of every version, the newest included. What was stored as a difference to
// them is stored anew, and the files that held them are rewritten. The versions
// stay in the log without content. Siblings keep what they have; from now on
// this store adopts nothing of theirs, or the content might come back.
func (s *Store) Purge(ctx context.Context, path Path) (Purged, error) {
	s.tidyMu.Lock()
	defer s.tidyMu.Unlock()
	var p Purged
	var seqs []uint64
	mine := map[Hash]bool{}
	again := false // a purge before may have been cut short: what it left is done now
	err := s.scan(0, false, func(v Version) bool {
		switch {
		case !inside(v.Path, path):
		case v.Blob != (Hash{}):
			seqs = append(seqs, v.Seq)
			mine[v.Blob] = true
		case v.NoContent == purgedContent:
			again = true
		}
		return ctx.Err() == nil
	}, nil)
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return p, err
	}
	if len(seqs) == 0 && !again {
		// Pack files that came from siblings may hold it all the same.
		if p.Waste, err = s.purgeWaste(ctx); p.Waste > 0 || err != nil {
			return p, err
		}
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
	if err := s.standAlone(); err != nil {
		return p, err
	}
	for part := range slices.Chunk(seqs, chunk) {
		if err := errors.Join(ctx.Err(), s.dropContents(part, purgedContent)); err != nil {
			return p, fmt.Errorf("purge: %w", err)
		}
		p.Versions += len(part)
	}
	r, err := s.sweep(ctx, wasteAny) // no frame keeps a byte of it
	p.Blobs, p.Bytes, p.Rebased = r.Blobs, r.Bytes, r.Rebased
	if err == nil {
		p.Waste, err = s.purgeWaste(ctx)
	}
	if err == nil {
		err = s.compact(ctx, db.WasteNone)
	}
	if err != nil {
		return p, fmt.Errorf("purge: %w", err)
	}
	p.Siblings, p.Others = s.heldElsewhere(ctx, mine)
	p.Unreached = append(p.Unreached,
		"blocks that the file system or an SSD has freed but not overwritten yet",
		"backups and snapshots of the state directory",
		"the file itself, which is only in the project")
	if len(p.Elsewhere) > 0 {
		p.Unreached = append(p.Unreached, fmt.Sprintf("%d other paths with the same content", len(p.Elsewhere)))
	}
	return p, nil
}

// standAlone ends adoption: before anything is taken away, so that it also holds
// for a purge that is killed. tidyMu is held.
func (s *Store) standAlone() error {
	if err := s.update(func(txn *badger.Txn) error { return txn.Set(keyAlone, []byte{1}) }); err != nil {
		return fmt.Errorf("purge: %w", err)
	}
	s.retire()
	return nil
}

// purgeWaste takes everything that nothing refers to out of the pack files, and
// tells how many bytes of contents that was. tidyMu is held.
func (s *Store) purgeWaste(ctx context.Context) (int64, error) {
	st, err := s.takeStock(ctx)
	if err != nil {
		return 0, fmt.Errorf("purge: %w", err)
	}
	gone := int64(0)
	for _, f := range st.frames {
		gone += max(0, f.head.raw-f.live)
	}
	if gone == 0 {
		return 0, nil
	}
	if err := s.standAlone(); err != nil {
		return 0, err
	}
	var r Report
	if err := s.refit(ctx, wasteAny, &r); err != nil {
		return 0, fmt.Errorf("purge: %w", err)
	}
	s.frames.clear()
	return gone, nil
}

// heldElsewhere looks for contents in the pack files of the siblings.
func (s *Store) heldElsewhere(ctx context.Context, mine map[Hash]bool) (hold, may []Sibling) {
	if s.opt.Siblings == nil {
		return nil, nil
	}
	tags := map[uint32]bool{}
	for h := range mine {
		tags[tagOf(h)] = true
	}
	for _, sib := range s.opt.Siblings() {
		if s.packsHold(ctx, filepath.Join(sib.Dir, space.PacksDir), tags, mine) {
			hold = append(hold, sib)
		} else {
			may = append(may, sib)
		}
	}
	return hold, may
}

// packsHold: one of the pack files in dir holds one of the contents. What cannot
// be read counts as held.
func (s *Store) packsHold(ctx context.Context, dir string, tags map[uint32]bool, mine map[Hash]bool) bool {
	files, _ := os.ReadDir(dir) // nothing packed yet
	for _, f := range files {
		if _, ok := parsePackName(f.Name()); !ok || ctx.Err() != nil {
			continue
		}
		file := filepath.Join(dir, f.Name())
		frames, err := readIndex(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return true
		}
		for _, fr := range frames {
			if !slices.ContainsFunc(fr.tags, func(t uint32) bool { return tags[t] }) {
				continue
			}
			z, err := readPart(file, fr.at, fr.n)
			raw, err2 := s.codecs.expand(z, nil, fr.raw)
			if err != nil || err2 != nil {
				return true
			}
			at := int64(0)
			for _, n := range fr.sizes {
				if mine[sha256.Sum256(raw[at:at+n])] {
					return true
				}
				at += n
			}
		}
	}
	return false
}
