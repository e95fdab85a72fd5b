package store

import (
	"encoding/binary"
	"fmt"

	"cachebro/store/db"

	badger "github.com/dgraph-io/badger/v4"
)

const (
	// schema is the number of the key layout that this program writes.
	schema = 5
	// oldestSchema is the oldest layout that this program can bring to the present one. Schema 5
	// has groups. The number changed because a program that does not know them would think that
	// their versions are lost. A store of schema 4 has none, so nothing has to be rewritten.
	oldestSchema = 4
)

// migrate brings the store to the present schema.
func migrate(s *Store) error {
	have, err := schemaOf(s.db)
	switch {
	case err != nil, have == schema, have == 0 && s.opt.ReadOnly:
		return err
	case have > schema:
		return fmt.Errorf("%w: schema %d, this program reads up to %d", ErrNewer, have, schema)
	case have > 0 && have < oldestSchema:
		return fmt.Errorf("the history has schema %d of an early cachebro; this one reads %d to %d", have, oldestSchema, schema)
	case s.opt.ReadOnly:
		return fmt.Errorf("%w: schema %d must be brought to %d first", ErrDamaged, have, schema)
	}
	return s.db.Update(func(txn *badger.Txn) error { return txn.Set(keySchema, binary.AppendUvarint(nil, schema)) })
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
