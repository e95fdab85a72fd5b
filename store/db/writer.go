package db

import (
	"errors"

	badger "github.com/dgraph-io/badger/v4"
)

// Writer spreads writes over as many transactions as Badger needs.
type Writer struct {
	db *badger.DB
	// Txn is the present transaction. Look-ups in it see pending writes.
	Txn *badger.Txn
	// ro sees only what was committed. It is for iterators: an iterator over Txn sorts all
	// pending writes each time it is created.
	ro *badger.Txn
}

// NewWriter returns a Writer. The caller holds the writer's lock, or nobody else uses the database
// yet. Close must follow.
func (d *DB) NewWriter() *Writer { return &Writer{db: d.bdb, Txn: d.bdb.NewTransaction(true)} }

// Snapshot returns a transaction to iterate over. It lacks the pending writes of Txn.
func (w *Writer) Snapshot() *badger.Txn {
	if w.ro == nil {
		w.ro = w.db.NewTransaction(false)
	}
	return w.ro
}

// Close drops writes that were not committed.
func (w *Writer) Close() {
	w.Txn.Discard()
	if w.ro != nil {
		w.ro.Discard()
		w.ro = nil
	}
}

// Commit commits the last transaction. If one transaction was not enough, the earlier ones
// are already committed.
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
