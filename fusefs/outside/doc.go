// Package outside is the safety net for places without a mount. It sees what one tree of
// processes is about to change or destroy, in any directory, and passes it to capture, which
// saves it. Like the overlay it connects observe and version, but it observes a tree of processes
// instead of a directory.
//
// # How it sees
//
// A seccomp filter (store/leaf/notifier) reports the system calls that change names,
// contents and attributes; all others run natively. What a call would destroy is saved
// before the call is let through (capture's Before and Found). The result of the call is recorded
// afterwards: for removals, renames and links as soon as their effect can be seen; for
// everything else when the file has not changed for a moment, before the next call that would
// destroy the result, when a client asks for it, and when the tree has ended.
//
// # Where it goes
//
// To the history of the project that contains the path, if it has one and is not mounted;
// otherwise to the user's own history, whose paths begin at the root directory
// (wire.OutsideRoot). Files on a mount of ours are left to the overlay.
//
// # Processes
//
// One recorder for each user serves all trees, because a spool has one writer. It receives the
// calls directly from the kernel. Each "cachebro run" holds a duplicate of its tree's listener,
// and a page of memory into which the kernel writes the call that is being looked at. When the
// recorder dies, run hands both to a new recorder. If none can be started, run lets all calls
// through unrecorded and reports that. When run dies, the recorder goes on. Calls that the
// recorder has seen, but not yet recorded in a history, are in a journal (journal_linux.go), from
// which the next recorder continues. If only an ancestor may read a process's memory (Yama), run
// reads it for the recorder.
//
// # Locks
//
// Recorder.mu guards all tables. It is held while a call is looked at, even over disk,
// and for as long as capture's barrier takes. file.mu is a leaf.
package outside

import "time"

// SettleWithin bounds how long a recorder may take to settle everything.
const SettleWithin = 30 * time.Second

// journalName is the name of the journal's directory, in the state directory of the user's own
// history. It exists while a recorder runs, and after a recorder was killed.
const journalName = "journal"
