// Package outside is the safety net where there is no mount: it sees what one tree of
// processes is about to change or destroy, anywhere, and passes it to capture, which
// keeps it. Like the overlay it stands between observe and version, but for a tree of
// processes instead of a directory.
//
// # How it sees
//
// A seccomp filter (store/leaf/notifier) reports the system calls that change names,
// contents and attributes; all others run natively. What a call would destroy is kept
// before the call goes on (capture's Before and Found). Its result is looked at
// afterwards: for removals, renames and links as soon as their effect can be seen; for
// everything else when the file was quiet for a moment, before the next call that would
// destroy it, when somebody asks, and at the end of the tree.
//
// # Where it goes
//
// To the history of the project that contains the path, if it has one and is not mounted;
// otherwise to the user's own history, whose paths begin at the root directory
// (wire.OutsideRoot). Files on a mount of ours are left to the overlay.
//
// # Who holds what
//
// One recorder for each user serves all trees, because a spool has one writer. It takes the
// calls from the kernel itself. Each "cachebro run" keeps a duplicate of its tree's listener,
// and a page of memory into which the kernel writes the call that is being looked at. When the
// recorder dies, run hands both to another one. If none can be started, run lets all calls go on
// unseen, and says so. When run dies, the recorder goes on. What the recorder has seen and not
// yet told is in a journal (journal_linux.go), from which the next recorder continues. Where
// only an ancestor may read a process's memory (Yama), run reads it for the recorder.
//
// # Locks
//
// Recorder.mu guards all tables. It is held while a call is looked at, even over disk,
// and for as long as capture's barrier takes. file.mu is a leaf.
package outside

import "time"

// SettleWithin bounds how long a recorder may take to settle everything.
const SettleWithin = 30 * time.Second

// journalName is the journal's directory in the state of the user's own history. It
// exists while a recorder runs, and after one was killed.
const journalName = "journal"
