// Package db wraps the store's Badger database. It opens and closes the database safely on a full
// disk, reads from snapshots, writes through one writer at a time, and returns space to the file
// system. It defines only two keys of its own.
//
// # Locks
//
// Each operation that appends to the log or removes from it holds the lock of DB (Lock and Unlock).
// The lock is held during Badger calls, because versions must be committed in the order of their
// numbers. Long work takes it in steps of a few milliseconds. A second lock, gate, is taken after
// it and blocks small writes (Update) while Badger flushes. Readers take no lock.
package db
