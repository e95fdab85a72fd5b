package store

import (
	"errors"
	"fmt"

	badger "github.com/dgraph-io/badger/v4"
)

// maxKV is the size limit for a value of a KV, in bytes.
const maxKV = 512 << 10

// KV is a named set of small values that other packages keep in the store. Its
// methods may be called concurrently.
type KV struct {
	s      *Store
	prefix []byte
}

// KV returns the set with this name, which may be empty.
func (s *Store) KV(bucket string) KV {
	return KV{s, append(keyNamed(kKV, bucket), 0)}
}

func (k KV) key(key string) []byte { return append(k.prefix[:len(k.prefix):len(k.prefix)], key...) }

// Get returns the value of key. ok is false if there is none.
func (k KV) Get(key string) (val []byte, ok bool, err error) {
	err = k.s.db.View(func(txn *badger.Txn) error {
		item, err := txn.Get(k.key(key))
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil
		}
		if err != nil {
			return damaged(err)
		}
		ok = true
		val, err = item.ValueCopy(nil)
		return damaged(err)
	})
	return val, ok, err
}

// Set stores a value of at most 512 KiB.
func (k KV) Set(key string, val []byte) error {
	return k.SetAll(map[string][]byte{key: val})
}

// SetAll stores several values in one step. A nil value deletes its key.
func (k KV) SetAll(vals map[string][]byte) error {
	for key, val := range vals {
		if len(val) > maxKV || len(key) > 4096 {
			return fmt.Errorf("%w: setting of %d bytes", ErrTooLarge, len(val))
		}
	}
	return k.s.db.Update(func(txn *badger.Txn) error {
		for key, val := range vals {
			op := func() error { return txn.Set(k.key(key), append([]byte{}, val...)) }
			if val == nil {
				op = func() error { return txn.Delete(k.key(key)) }
			}
			if err := op(); err != nil {
				return fmt.Errorf("store a setting: %w", err)
			}
		}
		return nil
	})
}

// Delete removes a key. Removing a missing key is not an error.
func (k KV) Delete(key string) error { return k.SetAll(map[string][]byte{key: nil}) }

// Scan calls fn with the entries whose keys begin with prefix, sorted by key, until fn
// returns an error, which Scan returns. val is valid only during the call.
func (k KV) Scan(prefix string, fn func(key string, val []byte) error) error {
	return k.s.db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{PrefetchValues: true, PrefetchSize: 64, Prefix: k.key(prefix)})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			key := string(it.Item().Key()[len(k.prefix):])
			if err := it.Item().Value(func(v []byte) error { return fn(key, v) }); err != nil {
				return err
			}
		}
		return nil
	})
}
