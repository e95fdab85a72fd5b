package content

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	badger "github.com/dgraph-io/badger/v4"
	"golang.org/x/sys/unix"
)

// frameNeeded is the share of a pack file that must be needed. If less is needed, its frames are
// rewritten.
const frameNeeded = 0.85

// Waste selects the frames that refit rewrites.
type Waste int

const (
	// WasteAlone selects only files that no sibling shares. A shared file takes no extra space.
	WasteAlone Waste = iota
	// WasteShared also selects a file that n stores share, if this store needs less than one nth of
	// it. A private copy then takes less space.
	WasteShared
	// WasteAny selects every file with an unneeded byte.
	WasteAny
)

// refit rewrites frames and pack files with too much waste, and drops empty ones. The caller holds
// the lock of s.
func (s *Store) refit(ctx context.Context, which Waste, r *Report) error {
	for before := int64(-1); ; {
		st, err := s.takeInventory(ctx)
		if err != nil {
			return err
		}
		open, sum := st.wasted(which)
		if sum == 0 || sum == before { // there is no waste, or it cannot be read
			break
		}
		before = sum
		err = s.pack(ctx, st, false, r, func(hd header) bool { return hd.enc == encFrame && open[hd.frame] })
		err = cmp.Or(err, s.dropFrames(ctx))
		if err != nil {
			return err
		}
	}
	return s.dropFrames(ctx)
}

// wasted returns the frames that refit rewrites, and the number of contents in them that are
// needed.
func (st *inventory) wasted(which Waste) (open map[uint64]bool, sum int64) {
	type part struct{ raw, live, links int64 }
	files := map[packName]*part{}
	for _, f := range st.frames {
		if files[f.head.file] == nil {
			files[f.head.file] = &part{links: int64(f.links)}
		}
		t := files[f.head.file]
		t.raw, t.live = t.raw+f.head.raw, t.live+f.live
	}
	open = map[uint64]bool{}
	for id, f := range st.frames {
		t := files[f.head.file]
		least := frameNeeded * float64(t.raw)
		switch {
		case which == WasteAny:
			least = float64(t.raw)
		case t.links > 1 && which == WasteAlone:
			continue
		case t.links > 1:
			least /= float64(t.links)
		}
		if f.parts > 0 && float64(t.live) < least {
			open[id] = true
			sum += int64(f.parts)
		}
	}
	return open, sum
}

// dropFrames deletes a pack file with its frames if none of the frames is needed and none of the
// contents is on offer. Such a file was emptied, or a killed repack left it. The caller holds the
// lock of s.
func (s *Store) dropFrames(ctx context.Context) error {
	st, err := s.takeInventory(ctx)
	if err != nil {
		return err
	}
	offered := s.offers.Load()
	needed := map[packName]bool{}
	for _, f := range st.frames {
		if f.parts > 0 || offered.has(f.head.file) {
			needed[f.head.file] = true
		}
	}
	var dead []uint64
	for id, f := range st.frames {
		if f.parts == 0 && !needed[f.head.file] {
			dead = append(dead, id)
		}
	}
	if len(dead) > 0 {
		// Make the removal of the last references durable before removing the files.
		if err := s.db.Sync(); err != nil {
			return err
		}
	}
	for part := range slices.Chunk(dead, chunk) {
		err := s.db.Update(func(txn *badger.Txn) error {
			for _, id := range part {
				if err := txn.Delete(keyFrame(id)); err != nil {
					return err
				}
				s.frames.Drop(id)
			}
			return nil
		})
		err = cmp.Or(err, ctx.Err())
		if err != nil {
			return err
		}
	}
	return s.dropPacks()
}

// packLinks returns all pack files with their numbers of hard links.
func (s *Store) packLinks() map[packName]uint64 {
	links := map[packName]uint64{}
	files, _ := os.ReadDir(s.packsDir()) // the directory may not exist yet
	for _, f := range files {
		var st unix.Stat_t
		if n, ok := parsePackName(f.Name()); ok && unix.Lstat(s.packPath(n), &st) == nil {
			links[n] = uint64(st.Nlink)
		}
	}
	return links
}

// dropPacks removes the pack files without a recorded frame. These are emptied files and files that
// a killed process did not record. The caller holds the lock of s or is its only user.
func (s *Store) dropPacks() error {
	files, err := os.ReadDir(s.packsDir())
	if err != nil || len(files) == 0 {
		return nil // no directory yet
	}
	needed, damaged := map[packName]bool{}, 0
	err = s.eachFrame(func(_ uint64, h frameHead) error {
		if h == (frameHead{}) {
			damaged++
		}
		needed[h.file] = true
		return nil
	})
	if err != nil {
		return err
	}
	if damaged > 0 { // any of the files may hold the damaged frames
		s.opt.Log.Warn("pack files are kept that may not be needed", "damaged frames", damaged)
		return nil
	}
	for _, f := range files {
		n, ok := parsePackName(f.Name())
		if ok && !needed[n] || strings.HasPrefix(f.Name(), packTemp) {
			if err := os.Remove(filepath.Join(s.packsDir(), f.Name())); err != nil {
				s.opt.Log.Warn("remove a pack file", "err", err) // the next call tries again
			}
		}
	}
	return nil
}
