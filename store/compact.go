package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	badger "github.com/dgraph-io/badger/v4"
	"golang.org/x/sys/unix"
)

// Keys that live for a moment only.
var (
	keyScratch = []byte("~scratch")
	keyFiller  = []byte("~filler")
)

const (
	// rotateLeast is what a value log file must hold to be worth ending.
	rotateLeast = 128 << 10

	// How much of a value log file may be deleted contents: when the daemon
	// collects by itself, when the user asks for room, and after a purge.
	wasteSome   = 0.15
	wasteLittle = 0.03
	wasteNone   = 1e-9
)

// compact gives the file system back what was deleted. Badger frees the space
// of a value only when the key's deletion has been merged with it, and never in
// the value log file that it writes to: so a new file is begun, the memtable is
// flushed, all tables are merged, then value log files are rewritten of
// which more than the share waste is deleted. tidyMu is held.
func (s *Store) compact(ctx context.Context, waste float64) error {
	if !s.enter() {
		return ErrClosed
	}
	defer s.leave()
	least := int64(rotateLeast)
	if waste == wasteNone {
		least = 1
	}
	if err := s.rotate(least); err != nil && !errors.Is(err, ErrNoSpace) {
		return fmt.Errorf("compact: %w", err)
	}
	if err := s.flush(); err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	if err := s.db.Flatten(1); err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	for range 4096 { // more files than the largest store has
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.room.check(0); err != nil {
			free, _, e := s.room.free()
			if e != nil || free < badgerReserve {
				return err
			}
		}
		err := s.db.RunValueLogGC(waste)
		if errors.Is(err, badger.ErrNoRewrite) || errors.Is(err, badger.ErrRejected) {
			break
		}
		if err != nil {
			return fmt.Errorf("compact: %w", err)
		}
	}
	s.room.usage(s.opt.Now(), true)
	return nil
}

// flush writes Badger's memtable out as a table. Dropping a prefix is the one
// call that does so; writes of others are held off meanwhile, since Badger
// would refuse them.
func (s *Store) flush() error {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	s.gate.Lock()
	defer s.gate.Unlock()
	err := s.db.Update(func(txn *badger.Txn) error { return txn.Set(keyScratch, []byte{1}) })
	if err != nil {
		return err
	}
	return s.db.DropPrefix(keyScratch)
}

// rotate makes Badger begin a new value log file, so that the last one can be
// rewritten as well: it does so only when a file is full. What fills it is
// deleted in the ordinary way, which counts it as something to be freed. A file
// that holds less than least bytes is left.
func (s *Store) rotate(least int64) error {
	dir := filepath.Join(s.dir, "db")
	last, used := lastValueLog(dir)
	if used < least {
		return nil
	}
	junk := make([]byte, 512<<10)
	rand.Read(junk)
	for range 64 {
		if err := s.room.check(int64(len(junk))); err != nil {
			return err
		}
		if err := s.update(func(txn *badger.Txn) error { return txn.Set(keyFiller, junk) }); err != nil {
			return err
		}
		if now, _ := lastValueLog(dir); now != last {
			break
		}
	}
	return s.update(func(txn *badger.Txn) error { return txn.Delete(keyFiller) })
}

// lastValueLog names the file that Badger writes to and tells how many bytes of
// it are allocated.
func lastValueLog(dir string) (name string, used int64) {
	files, err := filepath.Glob(filepath.Join(dir, "*.vlog"))
	if err != nil || len(files) == 0 {
		return "", 0
	}
	name = slices.Max(files)
	var st unix.Stat_t
	if unix.Lstat(name, &st) == nil {
		used = st.Blocks * 512
	}
	return name, used
}
