// Package db wraps the Badger database below the store: it opens and closes it safely on a full
// disk, reads from snapshots, writes through one writer at a time, and returns space to the file
// system. It knows only two keys, which are its own.
//
// # Locks
//
// The lock of DB (Lock and Unlock) is held by whoever appends to the log or removes from it. It
// is held during Badger calls, because the order of sequence numbers must be the order of
// commits; long work takes it in steps of a few milliseconds. gate, taken after it, keeps small
// records (Update) out while Badger flushes. Readers take no lock.
package db
