// Package capture hears from the overlay what happens on the mount and writes it, with the
// contents that must not be lost, to the spool. It stands between observe and version, inside
// the process that holds /dev/fuse, and so has no Badger, no index and no mmap: a full disk is
// an error number here.
//
// # What is written when
//
// The record of a version is appended when the operation happens, before its request is
// answered; that fixes the order and survives kill -9. The content is copied afterwards by
// workers, off the request path. The next operation that would destroy the content finds it
// still queued and copies it at once itself, or waits for the worker that has it: the barrier.
// Content that no version has yet (nobody has scanned it) is recorded as a baseline by the
// operation that is about to destroy it.
//
// Every wait is bounded (2 s while the store is healthy, 100 ms once it has failed) and ends
// with the request. Content that could not be kept by then is a gap: in the log if there is
// room, in memory until then. A full disk does no harm to closed content that nobody destroys:
// it is still in its file, and its job stays in the queue until there is room.
//
// # Classes
//
// Tracked files: every version with content. Ignored files: every version without
// content, but their content is kept, within a budget, when it is about to be destroyed.
// Excluded files: nothing; the removal of an excluded directory is one line.
//
// # Marks
//
// An inode's 32 mark bits say what capture knows of its present content; they
// are zero again after the kernel forgot the inode, which only costs a copy.
//
// # Locks
//
// copies.mu guards the queue and the jobs in it, sink.mu gaps and state; of Capture,
// procMu guards the processes that the spool knows and readMu the aggregated reads.
// They are leaves: held over no disk, callback or channel operation. The overlay calls
// with the lock of the inode held, so nothing here may wait for another inode.
package capture

// The mark bits of an inode.
const (
	markSafe     uint32 = 1 << iota // its present content is in the spool, or queued
	markKnown                       // the spool has a content version of this node, so that tails may follow
	markSynced                      // fsync was called since the last close
	markBare                        // it has no extended attributes that a history keeps
	markTaken                       // a plan of ours took its last name
	markFound                       // a record says how it was found, or that it was made
	markTold                        // for markTaken: a notice has said that it is still being written
	markExcluded                    // it was moved here from an excluded directory
)
