package content

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"cachebro/store/db"
	"cachebro/store/space"

	badger "github.com/dgraph-io/badger/v4"
	"golang.org/x/sys/unix"
)

// Sibling is the store of another worktree of the same repository.
type Sibling struct {
	Dir  string // directory of the store
	Root string // root of the worktree, for display
}

// keyAlone exists if something was ever purged. Then no pack file is adopted, because purged
// content must not return from a sibling.
var keyAlone = []byte("malone")

// adoptUseful adopts a pack file only if that saves at least minAdopted bytes, or half of the file's
// size if that is less.
const minAdopted = 64 << 10

// adopted is a pack file that was linked into this store.
type adopted struct {
	name   packName
	frames []packFrame
	id     uint64 // number of its first frame
	first  bool   // the sibling's directory sorts before this store's
}

// candidate is a pack file that a sibling has and this store does not.
type candidate struct {
	name   packName
	file   string
	dir    string // directory of the sibling's store
	frames []packFrame
}

// Adopt hard-links the pack files of siblings into this store and offers their contents. If such a
// content is stored later, it only refers to the linked file. Linked files that are never used are
// removed later. Adopt returns the number of offered contents. It is called for a new store before
// its first scan, and does not disturb siblings that are in use.
func (s *Store) Adopt(ctx context.Context) (int, error) {
	s.Lock()
	defer s.Unlock()
	if s.alone() {
		return 0, nil
	}
	_, err := s.adopt(ctx, s.candidates(ctx), func(candidate) bool { return true })
	return s.offers.Load().count(), err
}

// alone reports whether this store must not adopt pack files.
func (s *Store) alone() bool {
	if s.opt.Siblings == nil || s.opt.ReadOnly {
		return true
	}
	err := s.db.View(func(txn *badger.Txn) error { _, err := txn.Get(keyAlone); return err })
	return !errors.Is(err, badger.ErrKeyNotFound)
}

// candidates lists the siblings' pack files that this store lacks.
func (s *Store) candidates(ctx context.Context) []candidate {
	var own unix.Stat_t
	if unix.Stat(s.dir, &own) != nil {
		return nil
	}
	have := s.packLinks()
	var out []candidate
	for _, sib := range s.opt.Siblings() {
		dir := filepath.Join(sib.Dir, space.PacksDir)
		files, _ := os.ReadDir(dir) // the directory may not exist yet
		for _, f := range files {
			n, ok := parsePackName(f.Name())
			if _, known := have[n]; !ok || known || ctx.Err() != nil {
				continue
			}
			c := candidate{name: n, file: filepath.Join(dir, f.Name()), dir: sib.Dir}
			// Accept only files that belong to the same user and that nobody else can write to.
			var st unix.Stat_t
			if unix.Lstat(c.file, &st) != nil || st.Dev != own.Dev {
				continue
			}
			if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Mode&0o022 != 0 || st.Uid != own.Uid {
				continue
			}
			var err error
			c.frames, err = readIndex(c.file)
			if err != nil {
				s.opt.Log.Warn("cannot read a sibling's pack file", "err", err)
				continue
			}
			have[n] = 1
			out = append(out, c)
		}
	}
	return out
}

// adopt links the wanted candidates, records their frames and offers their contents. If the process
// is killed before the frames are recorded, Open removes the linked files. The caller holds the
// lock of s.
func (s *Store) adopt(ctx context.Context, cs []candidate, wanted func(candidate) bool) (bool, error) {
	last, lastPack := s.lastFrame, uint64(0)
	err := s.eachFrame(func(id uint64, h frameHead) error {
		last, lastPack = max(last, id), max(lastPack, h.pack)
		return nil
	})
	if err != nil {
		return false, err
	}
	room := maxOffers - s.offers.Load().count()
	var got []adopted
	for _, c := range cs {
		parts := 0
		for _, fr := range c.frames {
			parts += len(fr.tags)
		}
		if ctx.Err() != nil || parts > room || !wanted(c) {
			continue
		}
		if err := os.MkdirAll(s.packsDir(), 0o700); err != nil {
			return false, fmt.Errorf("adopt: %w", db.FailedWrite(err))
		}
		err := os.Link(c.file, s.packPath(c.name))
		if errors.Is(err, os.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return false, fmt.Errorf("adopt: %w", db.FailedWrite(err))
		}
		room -= parts
		got = append(got, adopted{c.name, c.frames, last + 1, c.dir < s.dir})
		last += uint64(len(c.frames))
	}
	s.lastFrame = last
	if len(got) == 0 {
		return false, ctx.Err()
	}
	// The directory entries must be durable before anything refers to them.
	if err := syncDir(s.packsDir()); err != nil {
		return false, fmt.Errorf("adopt: %w", err)
	}
	for _, p := range got {
		if err := s.enterPack(p, lastPack+1); err != nil {
			return false, fmt.Errorf("adopt: %w", err)
		}
	}
	s.db.Lock()
	defer s.db.Unlock()
	s.offers.Store(s.offers.Load().with(s.opt.Now(), got))
	return true, nil
}

// enterPack records the frames of an adopted file.
func (s *Store) enterPack(p adopted, pack uint64) error {
	return s.db.Update(func(txn *badger.Txn) error {
		for i, fr := range p.frames {
			h := frameHead{pack: pack, raw: fr.raw, file: p.name, at: fr.at, n: fr.n}
			if err := txn.Set(keyFrame(p.id+uint64(i)), h.encode()); err != nil {
				return err
			}
		}
		return nil
	})
}

// FetchPacks restores missing pack files from siblings. The caller holds the lock of s.
func (s *Store) FetchPacks(problem func(format string, a ...any)) {
	if s.opt.Siblings == nil || s.opt.ReadOnly {
		return
	}
	have, missing := s.packLinks(), map[packName]bool{}
	err := s.eachFrame(func(_ uint64, h frameHead) error {
		if _, ok := have[h.file]; !ok {
			missing[h.file] = true
		}
		return nil
	})
	if err != nil || len(missing) == 0 {
		return // Verify reports what is wrong
	}
	for _, cand := range s.candidates(context.Background()) {
		if missing[cand.name] && os.MkdirAll(s.packsDir(), 0o700) == nil && os.Link(cand.file, s.packPath(cand.name)) == nil {
			problem("the pack file %s was missing and has been restored from a sibling worktree's store", cand.name.file())
		}
	}
}
