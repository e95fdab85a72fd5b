package fusefs

import (
	"log/slog"
	"os"

	"cachebro/store/leaf/ignore"
)

// Classifier says which class a path belongs to. The path is slash-separated
// and relative to the root.
type Classifier interface {
	Class(path string, isDir bool) ignore.Class
}

// FDStore holds descriptors of files that could not be opened again by name. Its methods
// are called while requests wait, and must not block.
type FDStore interface {
	// Keep holds a duplicate of fd for the handle fh; false if it cannot.
	Keep(fh uint64, fd int) bool
	// Drop releases it.
	Drop(fh uint64)
}

// Options describe a mount. Source and Mountpoint are needed.
type Options struct {
	// Source is the source directory, opened before the mount covers it. The
	// server keeps it open; the caller closes it after Wait.
	Source *os.File
	// Mountpoint is an absolute path.
	Mountpoint string
	// FD, if above 0, is a /dev/fuse descriptor that is mounted on Mountpoint
	// already. The server owns it from then on.
	FD int
	// Ledger, if not nil, is a file from NewLedger in which the server notes what another
	// one must know to take over after a kill.
	Ledger *os.File
	// TakeOver: FD is the connection of a server that was killed, and Ledger its ledger.
	TakeOver bool
	// FDStore keeps descriptors of files that cannot be opened by name; nil: they are lost.
	FDStore FDStore
	// Kept are the descriptors that the FDStore held, by handle; the server owns them.
	Kept map[uint64]*os.File
	// AllowOther lets other users in; permissions are checked in any case.
	AllowOther bool
	ReadOnly   bool
	// Outside: somebody may write to the source without going through the
	// mount, so the kernel may trust what it cached for one second only.
	Outside bool
	// Hidden is a path relative to the root that is not shown, or "".
	Hidden string
	// Observer receives everything that happens on the mount; nil: nothing is reported.
	Observer Observer
	// NoCommands: the command lines of processes are not read.
	NoCommands bool
	// commandOf takes the place of /proc in tests.
	commandOf func(*Process) *Command
	// Classifier; nil: .git is excluded, all else is tracked.
	Classifier Classifier
	// Logger; nil: nothing is logged.
	Logger *slog.Logger
}

// Stats count what a server holds and has done.
type Stats struct {
	Inodes   int
	Handles  int
	Dirty    int // inodes that were written and not yet closed
	Threads  int
	Requests map[string]uint64 // by FUSE operation
}
