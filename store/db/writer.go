package db

import (
	"errors"

	badger "github.com/dgraph-io/badger/v4"
)

// Writer spreads writes over as many transactions as Badger wants.
type Writer struct {
	db *badger.DB
	// Txn is the present transaction; look-ups in it see what is pending.
	Txn *badger.Txn
	// ro sees what was committed, for iterators: one over Txn sorts all its
	// pending writes each time it is made.
	ro *badger.Txn
}

// NewWriter begins to write. The lock of the writer is held, or nobody else is
// there; Close must follow.
func (d *DB) NewWriter() *Writer { return &Writer{db: d.bdb, Txn: d.bdb.NewTransaction(true)} }

// Snapshot is a transaction to iterate over; it lacks what Txn has pending.
func (w *Writer) Snapshot() *badger.Txn {
	if w.ro == nil {
		w.ro = w.db.NewTransaction(false)
	}
	return w.ro
}

// Close drops what was not committed.
func (w *Writer) Close() {
	w.Txn.Discard()
	if w.ro != nil {
		w.ro.Discard()
		w.ro = nil
	}
}

// Commit ends the last transaction. Earlier ones, if it was too much for one, are
// committed already.
func (w *Writer) Commit() error {
	err := w.Txn.Commit()
	w.Close()
	return err
}

func (w *Writer) retry(op func() error) error {
	err := op()
	if !errors.Is(err, badger.ErrTxnTooBig) {
		return err
	}
	if err := w.Commit(); err != nil {
		return err
	}
	w.Txn = w.db.NewTransaction(true)
	return op()
}

// Set sets a key; k and v must not change before Commit.
func (w *Writer) Set(k, v []byte) error {
	return w.retry(func() error { return w.Txn.Set(k, v) })
}

// Del deletes a key.
func (w *Writer) Del(k []byte) error {
	return w.retry(func() error { return w.Txn.Delete(k) })
}
