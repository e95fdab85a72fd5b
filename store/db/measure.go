package db

import (
	"context"

	badger "github.com/dgraph-io/badger/v4"
)

// Measure returns the disk space of the keys for which mine returns true, and of all others. A
// value in the value log counts with its full size. The compressed table files are divided in
// proportion to the sizes of keys and values.
func (d *DB) Measure(ctx context.Context, mine func(key []byte) bool) (own, rest int64, err error) {
	var logged, tabled [2]int64 // 0: mine, 1: the rest
	err = d.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{PrefetchValues: false})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			item, kind := it.Item(), 1
			if mine(item.Key()) {
				kind = 0
			}
			n := item.ValueSize()
			if n >= valueThreshold {
				logged[kind] += n
				n = 0
			}
			tabled[kind] += item.KeySize() + n
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		return nil
	})
	files := float64(d.room.Tables()) / float64(max(tabled[0]+tabled[1], 1))
	return logged[0] + int64(float64(tabled[0])*files), logged[1] + int64(float64(tabled[1])*files), err
}
