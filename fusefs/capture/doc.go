// Package capture receives from the overlay everything that happens on the mount. It writes these
// events to the spool, with the contents that must not be lost; the daemon reads them from there. It
// runs in the process that holds /dev/fuse. So it uses no Badger, no index and no mmap: these crash
// the process if the disk is full, whereas capture only gets an error.
//
// # What is written when
//
// The record of a version is appended when the operation happens, before its request is
// answered; that fixes the order and survives kill -9. The content is copied afterwards by
// workers, off the request path. If the next operation that would destroy the content finds it
// still queued, that operation copies the content itself, or waits for the worker that is copying
// it. This is called the barrier. Content that no version has yet, because no scan has seen it, is
// recorded as a baseline by the operation that is about to destroy it.
//
// Every wait is bounded (2 s while the store is healthy, 100 ms once it has failed) and ends
// with the request. Content that could not be saved by then is a gap, which is recorded in the log
// as soon as there is room, and held in memory until then. A full disk does no harm to closed
// content that no operation destroys, because it is still in its file, and its job stays in the
// queue until there is room.
//
// # Classes
//
// Of tracked files, every version is recorded with its content. Of ignored files, every version is
// recorded without content, but content that is about to be destroyed is saved, within a budget.
// Of excluded files nothing is recorded, except one line when an excluded directory is removed.
//
// # Marks
//
// Each inode has 32 mark bits, which say what capture knows about its present content. They are
// reset to zero when the kernel forgets the inode, which can only cause a needless copy.
//
// # Locks
//
// copies.mu guards the queue and the jobs in it, and sink.mu the gaps and the state. In Capture,
// procMu guards the processes that the spool knows, and readMu the aggregated reads.
// They are leaf locks, and are not held during disk, callback or channel operations. The overlay calls
// this package with the lock of the inode held, so nothing here may wait for another inode.
package capture

// The mark bits of an inode.
const (
	markSafe     uint32 = 1 << iota // its present content is in the spool, or queued
	markKnown                       // the spool has a content version of this node, so that tails may follow
	markSynced                      // fsync was called since the last close
	markBare                        // it has no extended attributes that a history records
	markTaken                       // a plan of ours removed its last name
	markFound                       // a record has the state in which it was found, or says that it was made
	markTold                        // for markTaken: a notice has reported that it is still being written
	markExcluded                    // it was moved here from an excluded directory
)
