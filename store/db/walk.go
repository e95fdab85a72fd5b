package db

import (
	"bytes"

	badger "github.com/dgraph-io/badger/v4"
)

// nearby is how many keys a walk steps over before it seeks instead.
const nearby = 16

// Walk is an iterator that moves in one direction only.
type Walk struct {
	It    *badger.Iterator
	down  bool
	began bool
	seeks int // number of seeks so far
}

// NewWalk begins a walk over the keys with a prefix. The caller closes its iterator.
func NewWalk(txn *badger.Txn, prefix []byte) *Walk {
	return &Walk{It: txn.NewIterator(badger.IteratorOptions{Prefix: prefix})}
}

// NewWalkDown is like NewWalk, but the walk descends.
func NewWalkDown(txn *badger.Txn, prefix []byte) *Walk {
	return &Walk{It: txn.NewIterator(badger.IteratorOptions{Reverse: true, Prefix: prefix}), down: true}
}

// Pays reports whether the walk, having visited n keys, needed so few seeks that it was quicker
// than n look-ups. A look-up uses the filters of Badger's tables, while a seek has to search every
// table.
func (w *Walk) Pays(n int) bool { return w.seeks <= 8+n/8 }

// To moves to the first key at or above key. A descending walk moves to the first key at or below
// it.
func (w *Walk) To(key []byte) {
	for range nearby {
		if !w.began || w.It.Valid() && !w.isBefore(key) {
			break
		}
		if !w.It.Valid() {
			return // the walk ended before an earlier key, so this key is missing too
		}
		w.It.Next()
	}
	if !w.began || w.It.Valid() && w.isBefore(key) {
		w.It.Seek(key)
		w.began = true
		w.seeks++
	}
}

// isBefore reports whether the walk has not yet reached key.
func (w *Walk) isBefore(key []byte) bool {
	order := bytes.Compare(w.It.Item().Key(), key)
	return w.down && order > 0 || !w.down && order < 0
}
