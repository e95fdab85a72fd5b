// Package db wraps the Badger database that the store uses. It opens and closes it safely on
// a full disk, reads from snapshots, writes through one writer at a time, and returns space
// to the file system. It defines only two keys of its own.
//
// # Locks
//
// The lock of DB (Lock and Unlock) is held by each operation that appends to the log or
// removes from it. It is held during Badger calls, because the order of sequence numbers must
// be the order of commits; long work takes it in steps of a few milliseconds. gate, taken
// after it, blocks small writes (Update) while Badger flushes. Readers take no lock.
package db
