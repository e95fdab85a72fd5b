package fusefs

import (
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"cachebro/store/leaf/event"
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
	// Keep stores a duplicate of fd for handle fh, and reports whether it succeeded.
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
	// Ledger, if not nil, is a file from NewLedger, in which the server stores the state that
	// another server needs to take over the mount.
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
	// Outside means that processes may write directly to the source. Then the kernel may trust its
	// cache for at most one second.
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

// Caller is the process that sent a request, found by the thread id that the kernel sends. PID is 0
// when the kernel writes back its page cache, and for a process in another pid namespace.
type Caller struct {
	PID  uint32 // process (thread group) id
	TID  uint32 // thread id, from the request
	UID  uint32
	GID  uint32
	Proc *Process // nil if PID is 0 or the process has ended
}

// Process describes a process. It is cached by pid and start time. Only its atomic fields change.
type Process struct {
	PID    uint32
	Start  uint64 // in the unit of procfs.Stat
	Parent *Process
	UID    uint32
	Comm   string
	Group  uint32 // its process group
	// Leader identifies the session leader and Terminal the controlling terminal. Either is 0 if
	// there is none.
	Leader   uint32
	Terminal uint64
	Image    uint64            // changes with each program that the process executes; 0 if unknown
	Session  map[string]string // CLAUDE_CODE_SESSION_ID, CODEX_THREAD_ID, CACHEBRO_SESSION … in its environment

	// Front is set if the process group was in the terminal's foreground at the last check. Such a
	// group is not a background job.
	Front atomic.Bool

	command atomic.Pointer[Command]
	peeks   atomic.Int32 // how often processes.peek has examined the process
	peeked  atomic.Int64 // when processes.peek last examined the process, in Unix ns
}

// Command is the command line with which a process was started.
type Command struct {
	// Args returns the arguments without secrets, in the form of cmdline.Pack. The first call takes up
	// to some 100 µs.
	Args func() string
	Dir  string // working directory; "" if unknown
}

// Command returns the command of p, or nil if it is unknown. The command is read in the background,
// and no request waits for it.
func (p *Process) Command() *Command { return p.command.Load() }

// SetCommand sets the command of a process that has ended.
func (p *Process) SetCommand(c *Command) { p.command.Store(c) }

// File is an inode as an Observer sees it. An Observer may keep it after the call, but Open and
// Path return the state at the time of their call.
type File interface {
	// ID returns the node id, which is never reused within one mount.
	ID() uint64
	// Path returns one current path, slash-separated and relative to the root, or "" if the file
	// has no name.
	Path() string
	// Paths returns all known current paths, starting with Path, but no more than most, where 0
	// means all. If Stat().Nlink is greater than the number of all paths, the other names were
	// never looked up.
	Paths(most int) []string
	// NamesSeen returns how many names have become known so far. As long as the number stays the
	// same, no new name has become known. The number is 0 if names are not counted.
	NamesSeen() uint32
	// Open opens the file on the source read-only, never through the mountpoint, and returns a
	// descriptor. It works even for a file without a name while a handle is open. It returns ESTALE
	// if the inode cannot be found.
	Open() (fd int, err error)
	// Stat returns the current attributes from the source.
	Stat() (event.Stat, error)
	// At calls fn with a path that leads to this inode in the source, whatever names the inode has.
	// Functions for extended attributes need such a path. It returns ENOTSUP if the system has no
	// such paths.
	At(fn func(path string) error) error
	// Mark returns 32 bits: MarkTimes, and 31 for the Observer's use. They are zero at first and
	// after the kernel has forgotten the inode.
	Mark() *atomic.Uint32
}

// MarkTimes is the bit of a File's Mark that is set, with inode.order held, before the file's times
// are set through the mount. While the bit is set, different times do not mean different content.
// The Observer clears the bit.
const MarkTimes uint32 = 1 << 31

// TailMin is the shortest unchanged beginning of a file that TailFrom reports. If the unchanged
// part is shorter, storing only the appended part saves nothing.
const TailMin = 4 << 10

// Change describes what is about to happen to a file's content.
type Change struct {
	File   File
	Caller Caller
	Op     event.Op // OpWrite, OpTruncate, OpUnlink, or OpRename if the file is replaced
	// Name is the path being removed or replaced (OpUnlink, OpRename).
	Name string
	// Append means that the first write is at the end, through a handle that can only append.
	Append bool
	// Cancel is closed when the request is cancelled, which ends every wait.
	Cancel <-chan struct{}
}

// Closed describes the content of a file that was closed.
type Closed struct {
	File   File
	Caller Caller // the process that closed the file; Writer is the process that wrote to it
	Writer Caller
	Op     event.Op // OpCreate if the file was made since the last close, OpTruncate for truncate(2), otherwise OpWrite
	Stat   event.Stat
	// TailFrom, if ≥ 0, means that all bytes before this offset are unchanged since the previous
	// close of this inode, or since its Before if it was never closed. It is -1 if unknown, 0 if a
	// process may have written to the source directly, and Stat.Size if the content did not change.
	TailFrom int64
	// LastPath is File.Path() or, if there is no name, the last name.
	LastPath string
	// Idle means that the file is not closed but was not written to for a while.
	Idle bool
	// Held means that a handle was flushed but not released. A Releaser is called at the release,
	// which usually follows at once.
	Held bool
	Time time.Time
}

// Event is an operation on names or attributes that has succeeded.
type Event struct {
	Op          event.Op
	File        File // nil for OpRmdir and if unknown
	Caller      Caller
	Path        string
	Path2       string     // the new name, for OpRename, OpExchange, OpLink
	Target      string     // where the symlink points, for OpSymlink and if File is a symlink
	OtherTarget string     // where Replaced points, for OpExchange, if Replaced is a symlink
	Stat        event.Stat // after the operation; before it for OpUnlink and OpRmdir
	Was         event.Stat // before the operation, for OpChmod
	// Replaced is the inode that lost its name to the rename, if there is one (OpRename), or the
	// inode that got the name Path (OpExchange).
	Replaced     File
	ReplacedStat event.Stat   // of Replaced, before the operation, for OpRename
	Class        ignore.Class // of Path; of Path2 if Path is excluded
	Class2       ignore.Class // of Path2
	Time         time.Time
}

// Observer receives everything that happens on the mount. The handler of a request calls it
// synchronously, from many goroutines at once. For one inode, the calls come in the order in which
// the operations took effect. Methods return quickly. Only Before may wait until the old content is
// saved, for a limited time and until Change.Cancel is closed. No method can fail a request.
type Observer interface {
	// Before is called before an operation destroys the content of a regular file: the first write
	// to a clean inode, a truncation, the removal or replacement of a name. After that call, Before
	// is not called for writes to the inode until the next Closed. It is never called for a new
	// file before the first Closed. For OpUnlink and OpRename it is called for every name. If
	// Stat().Nlink is 1, that name is the last.
	Before(Change)
	// Closed is called after a file was closed, as defined in the package comment.
	Closed(Closed)
	// Done is called after an operation on names or attributes has succeeded.
	Done(Event)
	// Opened is called after a file was opened read-only. Calls are frequent.
	Opened(f File, c Caller)
	// Synced is called by fsync(2) after the source has synced the file. It returns when the
	// Observer's copy is durable, or after a limited time.
	Synced(f File, cancel <-chan struct{})
	// Outside is called when a process has changed a file directly on the source.
	Outside(f File, before, after event.Stat)
}

// Finder is an Observer that also receives the state of files before their names or attributes
// change, because the Observer may not know that state.
type Finder interface {
	// Found is called before a name is removed, moved or replaced. The operation may still fail. For
	// the last name of a regular file, Before is called instead. target is where a symlink points.
	Found(f File, name, target string, st event.Stat)
	// FoundAll is called before a file gets other attributes or another name. The call concerns all
	// known names of the file except skip. If skip is "", it concerns all of them.
	FoundAll(f File, skip, target string, st event.Stat)
}

// Describer is an Observer that also receives the commands of processes.
type Describer interface {
	// Described is called when the command of a process becomes known, before or after the first
	// call about that process.
	Described(p *Process)
}

// Releaser is an Observer that is also called when a handle that could write is released.
type Releaser interface {
	// Released is called by the request that ends the handle. No process waits for that request, so
	// some microseconds of work are cheaper here than in another goroutine. fd, if not negative, is
	// a descriptor of the file that can be read during the call. Its file offset must not be used.
	Released(f File, fd int)
}
