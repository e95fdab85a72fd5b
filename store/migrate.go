package store

import (
	"encoding/binary"
	"fmt"

	"cachebro/store/content"
	"cachebro/store/db"

	badger "github.com/dgraph-io/badger/v4"
)

// schema is the number of the key layout that this program writes.
const schema = 5

// migrations[n] takes a store from schema n to n+1. A migration only adds or rewrites keys and
// never drops data. Its last transaction changes the number, so it can be repeated after a crash.
var migrations = map[uint64]func(*Store, *db.Writer) error{
	1: addTimes,
	2: noteLoose,
	// Schema 4 puts frames into pack files. Frames of schema 3 stay unchanged until they are packed
	// again. The number changed because a program that does not know pack files would consider
	// their contents lost. noteLoose runs again because more contents can be packed now.
	3: noteLoose,
	// Schema 5 has groups. The number changed because a program that does not know them would
	// think that their versions are lost. A store of schema 4 has none.
	4: func(*Store, *db.Writer) error { return nil },
}

// migrate brings the store to the present schema.
func migrate(s *Store) error {
	have, err := schemaOf(s.db)
	if err != nil {
		return err
	}
	switch {
	case have > schema:
		return fmt.Errorf("%w: schema %d, this one knows %d", ErrNewer, have, schema)
	case have == schema:
		return nil
	case s.opt.ReadOnly:
		if have == 0 {
			return nil
		}
		return fmt.Errorf("%w: schema %d must be brought to %d first", ErrDamaged, have, schema)
	}
	if have == 0 {
		return setSchema(s, schema, func(*Store, *db.Writer) error { return nil }) // a new store
	}
	for ; have < schema; have++ {
		if err := setSchema(s, have+1, migrations[have]); err != nil {
			return fmt.Errorf("migrate from schema %d: %w", have, err)
		}
	}
	return nil
}

// setSchema runs change and then stores schema number n.
func setSchema(s *Store, n uint64, change func(*Store, *db.Writer) error) error {
	w := s.db.NewWriter()
	defer w.Close()
	if err := change(s, w); err != nil {
		return err
	}
	if err := w.Set(keySchema, binary.AppendUvarint(nil, n)); err != nil {
		return err
	}
	return w.Commit()
}

// schemaOf returns the schema number, or 0 for an empty store.
func schemaOf(d *db.DB) (uint64, error) {
	var n uint64
	err := d.View(func(txn *badger.Txn) error {
		item, err := txn.Get(keySchema)
		if err == badger.ErrKeyNotFound {
			return nil
		}
		if err != nil {
			return damaged(err)
		}
		return item.Value(func(v []byte) error {
			var k int
			n, k = binary.Uvarint(v)
			if k <= 0 || n == 0 {
				return fmt.Errorf("%w: schema number", ErrDamaged)
			}
			return nil
		})
	})
	return n, err
}

// addTimes writes the z records that schema 1 lacks.
func addTimes(s *Store, w *db.Writer) error {
	return s.db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{PrefetchValues: true, PrefetchSize: 100, Prefix: []byte{kVersion}})
		defer it.Close()
		blk, t, any := uint64(0), times{}, false
		flush := func() error {
			if !any {
				return nil
			}
			return w.Set(keyTimes(blk*timeBlock), t.bytes())
		}
		for it.Rewind(); it.Valid(); it.Next() {
			var v Version
			err := it.Item().Value(func(val []byte) (err error) { v, err = decodeVersion(it.Item().Key(), val); return })
			if err != nil {
				return err
			}
			if at := v.Seq / timeBlock; !any || at != blk {
				if err := flush(); err != nil {
					return err
				}
				blk, t, any = at, times{Min: v.Time, Max: v.Time}, true
			}
			t = times{Min: min(t.Min, v.Time), Max: max(t.Max, v.Time)}
		}
		return flush()
	})
}

// noteLoose counts the contents that can be put into frames, which schema 2 lacks.
func noteLoose(s *Store, w *db.Writer) error {
	var st State
	found, err := get(s.db, keyState, &st)
	if err != nil || !found {
		return err
	}
	n, err := content.Count(w.Snapshot())
	if err != nil {
		return err
	}
	st.Loose = n.Loose
	return w.Set(keyState, encode(&st))
}
