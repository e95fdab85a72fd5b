package content

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	badger "github.com/dgraph-io/badger/v4"

	"cachebro/store/space"
)

// StandAlone makes this store never adopt a pack file again. A purge calls it first, because the
// rule must hold even if the purge is killed. The caller holds the lock of s.
func (s *Store) StandAlone() error {
	if err := s.db.Update(func(txn *badger.Txn) error { return txn.Set(keyAlone, []byte{1}) }); err != nil {
		return fmt.Errorf("purge: %w", err)
	}
	s.retire()
	return nil
}

// PurgeWaste removes all unreferenced contents from the pack files and returns the number of bytes
// removed. The caller holds the lock of s.
func (s *Store) PurgeWaste(ctx context.Context) (int64, error) {
	st, err := s.takeInventory(ctx)
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
	if err := s.StandAlone(); err != nil {
		return 0, err
	}
	var r Report
	if err := s.refit(ctx, WasteAny, &r); err != nil {
		return 0, fmt.Errorf("purge: %w", err)
	}
	s.frames.Clear()
	return gone, nil
}

// HeldElsewhere divides the siblings into two groups. hold lists those that have one of the
// contents in a pack file. may lists the others, because their databases may have one.
func (s *Store) HeldElsewhere(ctx context.Context, mine map[Hash]bool) (hold, may []Sibling) {
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

// packsHold reports whether a pack file in dir has one of the contents. It returns true for
// unreadable files.
func (s *Store) packsHold(ctx context.Context, dir string, tags map[uint32]bool, mine map[Hash]bool) bool {
	files, _ := os.ReadDir(dir) // the directory may not exist yet
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
