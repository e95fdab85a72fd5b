package store

import (
	"fmt"
	"slices"
	"sync/atomic"

	badger "github.com/dgraph-io/badger/v4"
)

// Notice is a line of the log that is not a version, such as "an excluded directory was deleted" or
// "capture was resumed".
type Notice struct {
	Time  int64  `cbor:"1,keyasint,omitempty"` // ns since the epoch
	Text  string `cbor:"2,keyasint,omitempty"`
	Actor Actor  `cbor:"3,keyasint,omitempty"`
}

// maxTimed is how many gaps and how many notices are kept; the oldest are dropped.
const maxTimed = 10000

// Notes gives access to the gaps and notices in the log.
type Notes struct {
	s      *Store
	serial atomic.Uint64 // distinguishes entries made in the same nanosecond
}

// NoteGap records a gap.
func (n *Notes) NoteGap(g Gap) error {
	s := n.s
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	next := s.next
	next.GapCount++
	err := s.db.Update(func(txn *badger.Txn) error {
		if err := txn.Set(keyTimed(kGap, g.Time, n.serial.Add(1)), encode(&g)); err != nil {
			return err
		}
		return txn.Set(keyState, encode(&next))
	})
	if err != nil {
		return fmt.Errorf("note a gap: %w", err)
	}
	s.next = next
	s.state.Store(&next)
	return nil
}

// Gaps returns the newest gaps, newest first. If limit is 0, it returns up to 100. It also returns
// the number of gaps ever recorded.
func (n *Notes) Gaps(limit int) ([]Gap, int64, error) {
	gs, err := timed[Gap](n.s, kGap, limit)
	return gs, n.s.state.Load().GapCount, err
}

// Notice adds a line to the log.
func (n *Notes) Notice(line Notice) error {
	err := n.s.db.Update(func(txn *badger.Txn) error {
		return txn.Set(keyTimed(kNotice, line.Time, n.serial.Add(1)), encode(&line))
	})
	if err != nil {
		return fmt.Errorf("note a line: %w", err)
	}
	return nil
}

// Notices returns the newest notices, newest first. If limit is 0, it returns up to 100.
func (n *Notes) Notices(limit int) ([]Notice, error) { return timed[Notice](n.s, kNotice, limit) }

func timed[T any](s *Store, prefix byte, limit int) ([]T, error) {
	if limit <= 0 {
		limit = 100
	}
	var out []T
	err := s.db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{
			PrefetchValues: true, PrefetchSize: min(limit, 100), Reverse: true, Prefix: []byte{prefix}})
		defer it.Close()
		for it.Seek([]byte{prefix, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}); it.Valid() && len(out) < limit; it.Next() {
			var t T
			if err := it.Item().Value(func(v []byte) error { return decode(v, &t) }); err != nil {
				return damaged(err)
			}
			out = append(out, t)
		}
		return nil
	})
	return out, err
}

// DropOldest drops the oldest gaps and notices, and keeps 10,000 of each.
func (n *Notes) DropOldest() error {
	for _, prefix := range []byte{kGap, kNotice} {
		var keys [][]byte
		err := n.s.db.View(func(txn *badger.Txn) error {
			it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{prefix}})
			defer it.Close()
			for it.Rewind(); it.Valid(); it.Next() {
				keys = append(keys, it.Item().KeyCopy(nil))
			}
			return nil
		})
		if err != nil {
			return err
		}
		for part := range slices.Chunk(keys[:max(0, len(keys)-maxTimed)], chunk) {
			err := n.s.db.Update(func(txn *badger.Txn) error {
				for _, k := range part {
					if err := txn.Delete(k); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}
