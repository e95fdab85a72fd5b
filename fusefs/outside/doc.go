// Package outside records changes where no mount exists. It sees what one tree of processes is
// about to change or destroy, in any directory, and passes the content to capture, which saves it.
//
// # How changes are seen
//
// A seccomp filter (store/leaf/notifier) reports the system calls that change names, contents and
// attributes. All other calls run natively. Before a reported call is let through, capture's Before
// and Found save the content that the call would destroy. A removal, rename or link is recorded as
// soon as its effect can be seen. Changed content is recorded when the file has not changed for a
// moment, before a call that would destroy the content, when a client asks, and when the tree has
// ended.
//
// # Where changes go
//
// Changes go to the history of the project that contains the path, if it has one and is not
// mounted. Otherwise they go to the user's own history, whose paths begin at the root directory
// (wire.OutsideRoot). The overlay records files on its mount itself.
//
// # Processes
//
// One recorder for each user serves all trees, because a spool has only one writer. The kernel
// sends the calls directly to the recorder. Each "cachebro run" holds a duplicate of its tree's
// listener, and a page of memory into which the kernel writes the call being examined. When the
// recorder dies, run passes the listener and the page to a new recorder. If no recorder can be
// started, run lets all calls through unrecorded and reports that. When run dies, the recorder
// continues. The recorder is started by the first call of a tree. Before that, a second process
// holds the listener in case run is killed; see Watch.hold.
//
// The recorder also starts store daemons. A daemon that a process of a tree starts would belong to
// the tree.
//
// Calls that are in no history yet are in a journal (journal_linux.go), from which the next
// recorder continues. On systems where only an ancestor may read a process's memory (Yama), run
// reads the memory for the recorder.
//
// # Locks
//
// Recorder.mu guards all tables. It is held while a call is examined, during disk access and while
// capture's barrier waits. file.mu is a leaf lock.
package outside

import "time"

// SettleWithin bounds how long a recorder may take to record the present state of all touched
// paths.
const SettleWithin = 30 * time.Second

// journalName is the journal's directory in the state directory of the user's own history. The
// directory exists while a recorder runs, and after a recorder was killed.
const journalName = "journal"
