package fusefs

import (
	"log/slog"
	"os"

	"cachebro/store/leaf/ignore"
)

// Classifier decides which paths are captured.
type Classifier interface {
	// Class returns the class of a path, which is slash-separated and relative to the root.
	Class(path string, isDir bool) ignore.Class
}

// FDStore holds descriptors of files that another server could not open by name. Its methods are
// called while requests wait, so they must not block.
type FDStore interface {
	// Keep stores a duplicate of fd for handle fh, and reports whether it could.
	Keep(fh uint64, fd int) bool
	// Drop closes the descriptor stored for fh.
	Drop(fh uint64)
}

// Options describes a mount. Source and Mountpoint are required.
type Options struct {
	// Source is the source directory, opened before the mount covers it. The caller closes it after
	// Wait.
	Source *os.File
	// Mountpoint is an absolute path.
	Mountpoint string
	// FD, if above 0, is a /dev/fuse descriptor already mounted on Mountpoint. The server owns it.
	FD int
	// Ledger, if not nil, is a file from NewLedger, in which the server notes what another server
	// needs to take over the mount.
	Ledger *os.File
	// TakeOver means that FD and Ledger are those of a killed server.
	TakeOver bool
	// FDStore stores descriptors of files that cannot be opened by name. If nil, a server that
	// takes over cannot open these files.
	FDStore FDStore
	// Kept are the descriptors that the FDStore held, by handle. The server owns them.
	Kept map[uint64]*os.File
	// AllowOther lets other users use the mount. Permissions are always checked.
	AllowOther bool
	ReadOnly   bool
	// Outside means that processes may write directly to the source. The kernel may then trust its
	// cache for one second only.
	Outside bool
	// Hidden, if not "", is a path relative to the root that the mount hides.
	Hidden string
	// Observer, if not nil, receives everything that happens on the mount.
	Observer Observer
	// NoCommands turns off the reading of processes' command lines.
	NoCommands bool
	// commandOf, if not nil, replaces /proc in tests.
	commandOf func(*Process) *Command
	// Classifier decides which paths are captured. If nil, .git is excluded and everything else is
	// tracked.
	Classifier Classifier
	// Logger, if not nil, receives log messages.
	Logger *slog.Logger
}

// Stats count what a server holds and has done.
type Stats struct {
	Inodes   int
	Handles  int
	Dirty    int // inodes written and not closed yet
	Threads  int
	Requests map[string]uint64 // by FUSE operation
}
