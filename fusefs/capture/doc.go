// Package capture receives everything that happens on the mount from the overlay. It writes these
// events, and the contents that must not be lost, to the spool, from which the daemon reads them.
// It runs in the process that serves the mount. Badger, the search index and mmap can crash a
// process when the disk is full, so capture uses none of them.
//
// # What is written when
//
// The record of a version is appended before the reply to the request. So the order is fixed, and
// the record survives kill -9. Workers copy the content afterwards. If the next operation would
// destroy content that is still queued, that operation copies the content itself or waits for the
// worker that copies it. This is called the barrier. Content that no scan has seen is recorded as a
// baseline by the operation that is about to destroy it.
//
// Every wait is bounded (2 s while the store is healthy, 100 ms once it has failed) and ends with
// the request. Content that could not be saved in that time becomes a gap, which is recorded in the
// log as soon as there is room. When the disk is full, the content of a closed file stays only in
// that file until the queued copy succeeds.
//
// # Classes
//
//   - tracked: every version is recorded with its content
//   - ignored: every version is recorded without content; content that is about to be
//     destroyed is saved, within a budget
//   - excluded: nothing is recorded, except the removal of an excluded directory, and moves into or
//     out of it (boundary.go)
//
// # Marks
//
// Each inode has 32 mark bits, which record what capture knows about its present content. They are
// zero after the kernel has forgotten the inode, which can only cause a needless copy.
//
// # Locks
//
// copies.mu guards the queue and its jobs, sink.mu the gaps and the state, Capture.procMu the
// processes that the spool describes, and Capture.readMu the reads. They are leaf locks, not held
// during disk access, callbacks or channel operations. The overlay calls this package with the
// inode locked, so nothing here may wait for another inode.
package capture

// The mark bits of an inode.
const (
	markSafe    uint32 = 1 << iota // its present content is in the spool, or queued
	markKnown                      // the spool has a version of this node with content, so tails may follow
	markSynced                     // fsync was called since the last close
	markBare                       // it has no extended attributes that the history records
	markTaken                      // one of cachebro's plans removed its last name
	markFound                      // a record has the file's original state, or says that the file was made
	markNoticed                    // with markTaken: a notice has reported that the file is still being written
)
