package store

import (
	"fmt"

	badger "github.com/dgraph-io/badger/v4"
)

// Notice is a line of the log that is not a version: an excluded directory was
// deleted, capture was resumed.
type Notice struct {
	Time  int64  `cbor:"1,keyasint,omitempty"` // ns since the epoch
	Text  string `cbor:"2,keyasint,omitempty"`
	Actor Actor  `cbor:"3,keyasint,omitempty"`
}

// maxTimed is how many gaps and notices are kept; the oldest go.
const maxTimed = 10000

// NoteGap records content that should have been kept and was not.
func (s *Store) NoteGap(g Gap) error {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	next := s.next
	next.GapCount++
	err := s.db.Update(func(txn *badger.Txn) error {
		if err := txn.Set(keyTimed(kGap, g.Time, s.serial.Add(1)), encode(&g)); err != nil {
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

// Gaps returns the newest gaps, newest first (limit 0: 100), and how many
// there have ever been.
func (s *Store) Gaps(limit int) ([]Gap, int64, error) {
	gs, err := timed[Gap](s, kGap, limit)
	return gs, s.state.Load().GapCount, err
}

// Notice adds a line to the log.
func (s *Store) Notice(n Notice) error {
	err := s.db.Update(func(txn *badger.Txn) error {
		return txn.Set(keyTimed(kNotice, n.Time, s.serial.Add(1)), encode(&n))
	})
	if err != nil {
		return fmt.Errorf("note a line: %w", err)
	}
	return nil
}

// Notices returns the newest notices, newest first (limit 0: 100).
func (s *Store) Notices(limit int) ([]Notice, error) { return timed[Notice](s, kNotice, limit) }

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
