package db

import (
	"errors"

	badger "github.com/dgraph-io/badger/v4"
)

// Writer divides writes into as many transactions as Badger needs.
type Writer struct {
	db *badger.DB
	// Txn is the current transaction. Its look-ups see pending writes.
	Txn *badger.Txn
	// ro sees only committed data. It is for iterators, because creating an iterator over Txn sorts
	// all pending writes.
	ro *badger.Txn
}

// NewWriter returns a Writer. The caller holds the writer's lock or is the database's only user.
// Close must follow.
func (d *DB) NewWriter() *Writer { return &Writer{db: d.bdb, Txn: d.bdb.NewTransaction(true)} }

// Snapshot returns a transaction to iterate over, without the pending writes of Txn.
func (w *Writer) Snapshot() *badger.Txn {
	if w.ro == nil {
		w.ro = w.db.NewTransaction(false)
	}
	return w.ro
}

// Close drops uncommitted writes.
func (w *Writer) Close() {
	w.Txn.Discard()
	if w.ro != nil {
		w.ro.Discard()
		w.ro = nil
	}
}

// Commit commits the last transaction. Earlier transactions, if one was not enough, are already
// committed.
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

// Set sets a key. k and v must not change before Commit.
func (w *Writer) Set(k, v []byte) error {
	return w.retry(func() error { return w.Txn.Set(k, v) })
}

// Del deletes a key.
func (w *Writer) Del(k []byte) error {
	return w.retry(func() error { return w.Txn.Delete(k) })
}
