package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	badger "github.com/dgraph-io/badger/v4"
)

// keyScratch is a prefix whose keys live for a moment only.
var keyScratch = []byte("~scratch")

// compact gives the file system back what was deleted. Badger frees the space
// of a value only when the key's deletion has been merged with it, so the
// memtable is flushed first, then all tables are merged, then value log files
// are rewritten. all: every file that holds anything deleted, the one being
// written too (purge). tidyMu is held.
func (s *Store) compact(ctx context.Context, all bool) error {
	if !s.enter() {
		return ErrClosed
	}
	defer s.leave()
	if err := s.flush(); err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	if all {
		if err := s.rotate(); err != nil {
			return fmt.Errorf("compact: %w", err)
		}
	}
	if err := s.db.Flatten(1); err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	ratio := 0.3
	if all {
		ratio = 1e-9
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
		err := s.db.RunValueLogGC(ratio)
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
// rewritten as well.
func (s *Store) rotate() error {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	junk := make([]byte, 1<<20)
	rand.Read(junk)
	for i := range 17 { // a file is 16 MiB
		err := s.db.Update(func(txn *badger.Txn) error {
			return txn.Set(fmt.Appendf(nil, "%s%d", keyScratch, i), junk)
		})
		if err != nil {
			return err
		}
	}
	s.gate.Lock()
	defer s.gate.Unlock()
	return s.db.DropPrefix(keyScratch)
}
