// Package outside is the safety net where there is no mount: it sees what one process
// tree is about to change or destroy, wherever that is, and tells capture, which keeps
// it. It stands between observe and version like the overlay, for a tree of processes
// instead of a directory.
//
// # How it sees
//
// A seccomp filter (store/leaf/notifier) shows the system calls by which names, contents
// and attributes change; all others run natively. What a call would destroy is kept
// before it goes on (capture's Before and Found). What became of it is looked at
// afterwards: of removals, renames and links as soon as their effect can be seen, of
// everything else when the file has been quiet for a moment, before the next call that
// would destroy it, when somebody asks, and at the tree's end.
//
// # Where it goes
//
// Into the history of the project that a path lies in, where the project has one and is
// not mounted; all else into a history of the user's own whose paths begin at the root
// directory (wire.OutsideRoot). What lies on a mount of ours is the overlay's.
//
// # Who holds what
//
// One recorder for each user serves all trees, because a spool has one writer. It takes
// the calls from the kernel itself. Each "cachebro run" keeps a duplicate of its tree's
// listener and a page of memory into which the kernel writes the call that is being looked
// at. When the recorder dies, run gives both to another one; when none can be had it lets
// all calls go on unseen, and says so. When run dies, the recorder goes on. What was seen
// and not told yet lies in a journal (journal_linux.go), from which the next recorder goes
// on. Where only an ancestor may read a process's memory (Yama), run reads it for the
// recorder.
//
// # Locks
//
// Recorder.mu guards all tables, and is held while a call is looked at: over disk, for
// as long as capture's barrier may take. file.mu is a leaf.
package outside

import "time"

// SettleWithin is how long a recorder may take to tell how everything is.
const SettleWithin = 30 * time.Second

// journalName is the journal's directory in the state of the user's own history. It is
// there while a recorder is, and after one that was killed.
const journalName = "journal"
