// Package db wraps the Badger database below the store: it opens and closes it safely
// on a full disk, reads from snapshots, writes by one writer at a time, and gives space
// back to the file system. It knows no keys but two of its own.
//
// # Locks
//
// The lock of DB (Lock and Unlock) is held by whoever appends to the log or
// removes from it. It is held over Badger calls because the order of sequence
// numbers is the order of commits; long work takes it in steps of a few
// milliseconds. gate, taken after it, holds small records (Update) off while
// Badger flushes. Readers take no lock.
package db
