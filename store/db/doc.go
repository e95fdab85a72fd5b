// Package db is the Badger database below the store: opened and closed without
// harm, read by snapshots, written by one writer at a time, and made small again.
// It knows no keys but the two that it makes and deletes itself.
//
// # Locks
//
// The lock of DB (Lock and Unlock) is held by whoever appends to the log or
// removes from it. It is held over Badger calls because the order of sequence
// numbers is the order of commits; long work takes it in steps of a few
// milliseconds. gate, taken after it, holds small records (Update) off while
// Badger flushes. Readers take no lock.
package db
