package store

import (
	"context"
	"encoding/binary"

	"cachebro/store/content"

	"github.com/dgraph-io/badger/v4"
)

// Access to internals for the tests in package store_test, which may use storetest.
var Checked = checked

// SetGroupLeast sets the smallest number of paths for which a group is made, and returns the
// previous one.
func SetGroupLeast(n int) int {
	was := minGroup
	minGroup = n
	return was
}

// Groups counts the groups.
func (s *Store) Groups() int { return len(s.groups.upTo(s.Seq())) }

// LeaveListAfter writes pieces of a list without its group, like a batch that is killed after it
// has made the given number of versions.
func (s *Store) LeaveListAfter(versions uint64, pieces int) error {
	w := s.db.NewWriter()
	defer w.Close()
	for i := range pieces {
		enc := encode(&Version{Path: Path(rune('a' + i))})
		if err := w.Set(keyList(s.Seq()+versions+1, i), append(binary.AppendUvarint(nil, uint64(len(enc))), enc...)); err != nil {
			return err
		}
	}
	return w.Commit()
}

// KeysSince returns the number of keys that were written after a moment (see Raw.Moment).
func (s *Store) KeysSince(moment uint64) (n int, err error) {
	err = s.db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{SinceTs: moment})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			n++
		}
		return nil
	})
	return n, err
}

// Unfinish makes the store look as if the batches after the state st had not been completed.
func (s *Store) Unfinish(st State) error {
	w := s.db.NewWriter()
	defer w.Close()
	if err := w.Set(keyState, encode(&st)); err != nil {
		return err
	}
	return w.Commit()
}

func (s *Store) ClearContents() { s.contents.Forget() }
func (s *Store) ClearCurrent()  { s.current.Clear() }

// Repack packs all loose contents.
func (s *Store) Repack(ctx context.Context) error {
	return s.contents.Repack(ctx, false, &content.Report{})
}
