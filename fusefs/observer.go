package fusefs

import (
	"os"
	"sync/atomic"
	"time"

	"cachebro/store/leaf/event"
	"cachebro/store/leaf/ignore"
)

// Caller is the process that sent a request, found by the thread id that the kernel sends. PID is 0
// if the page cache wrote back pages, or if the process is in another pid namespace.
type Caller struct {
	PID  uint32 // process (thread group) id
	TID  uint32 // as in the request
	UID  uint32
	GID  uint32
	Proc *Process // nil when PID is 0 or the process was gone
}

// Process is an immutable description of a process, cached by pid and start time.
type Process struct {
	PID    uint32
	Start  uint64 // start time, in the unit of procfs.Stat
	Parent *Process
	UID    uint32
	Comm   string
	Group  uint32 // its process group
	// Leader is the leader of its session, and Terminal the terminal that controls it; 0
	// if there is none.
	Leader   uint32
	Terminal uint64
	Image    uint64            // differs between the programs that it runs one after another; 0 if unknown
	Session  map[string]string // CLAUDE_CODE_SESSION_ID, CODEX_THREAD_ID, CACHEBRO_SESSION … as found in its environment

	// Front is set if its process group was in the foreground of its terminal when that was last
	// checked. Such a process is not a background job.
	Front atomic.Bool

	command atomic.Pointer[Command]
	peeks   atomic.Int32 // how often processes.peek examined it
	peeked  atomic.Int64 // when processes.peek last examined it, in Unix ns
}

// Command is the command line with which a process was started, secrets included.
type Command struct {
	Args []string // the first arguments, up to some KiB
	Cut  bool     // there are more arguments than Args holds
	Dir  string   // its working directory, "" if unknown
}

// Command returns the command of p, or nil if it cannot be read or has not been read yet. It is
// read in the background; no request waits for that.
func (p *Process) Command() *Command { return p.command.Load() }

// SetCommand sets the command of a process that has ended, whose command can no longer be read.
func (p *Process) SetCommand(c *Command) { p.command.Store(c) }

// File is an inode as an Observer sees it. An Observer may use it after the call that passed it, but
// Open and Path return the state at the moment when they are called.
type File interface {
	// ID returns the node id, which is never reused within one mount.
	ID() uint64
	// Path returns one current path, slash-separated and relative to the root. It returns "" if
	// the file has no name any more.
	Path() string
	// Paths returns all current paths that are known, starting with Path. If Stat().Nlink is
	// greater than their number, the file has more names, which were never looked up.
	Paths() []string
	// Open opens the file on the source read-only, never through the mountpoint. It works even
	// after the last name was removed, as long as a handle is open. It returns ESTALE if the
	// inode cannot be found any more.
	Open() (*os.File, error)
	// Stat returns the present attributes from the source.
	Stat() (event.Stat, error)
	// At calls fn with a path that leads to this inode on the source, whatever its names become.
	// Functions such as those for extended attributes need a path. It returns ENOTSUP if the
	// system has no such path.
	At(fn func(path string) error) error
	// Mark returns 32 bits: MarkTimes, and 31 that the Observer may use as it likes. They are zero
	// at first, and again after the kernel has forgotten the inode.
	Mark() *atomic.Uint32
}

// MarkTimes is the bit of a File's Mark that is set before the file's times are set through the
// mount, while the inode's order is held. While it is set, different times do not mean that the
// content has changed. The Observer clears it.
const MarkTimes uint32 = 1 << 31

// TailMin is the minimum length of the unchanged beginning of a file for which TailFrom is
// reported. With a shorter beginning, an Observer that stores only the appended part saves nothing.
const TailMin = 4 << 10

// Change describes what is about to happen to a file's content.
type Change struct {
	File   File
	Caller Caller
	Op     event.Op // OpWrite, OpTruncate, OpUnlink, OpRename (is being replaced)
	// Name is the path that is removed or replaced, for OpUnlink and OpRename.
	Name string
	// Append means that the first write is at the end, through a handle that can only append.
	Append bool
	// Cancel is closed when the request is cancelled; every wait ends then.
	Cancel <-chan struct{}
}

// Closed describes the content of a file that was closed.
type Closed struct {
	File   File
	Caller Caller // the process that closed the file; Writer is the process that wrote
	Writer Caller
	Op     event.Op // OpCreate if the file was made since it was last closed, OpTruncate for truncate(2), else OpWrite
	Stat   event.Stat
	// TailFrom, if ≥ 0, means that all bytes before this offset are the same as at the previous
	// close of this inode or, if there was none, at its Before. It is -1 if nothing is known
	// about them, 0 if a process may have written to the source directly, and Stat.Size if the
	// content did not change.
	TailFrom int64
	// LastPath is File.Path() or, if there is no name any more, the last name.
	LastPath string
	// Idle means that no process has closed the file, but it was not written to for a while.
	Idle bool
	// Held means that a handle was flushed but is not released yet. A Releaser is called when
	// it is, which is usually at once.
	Held bool
	Time time.Time
}

// Event is an operation on names or attributes that has succeeded.
type Event struct {
	Op     event.Op
	File   File // the inode; nil for OpRmdir and if it is not known
	Caller Caller
	Path   string
	Path2  string     // OpRename, OpExchange, OpLink: the new name
	Target string     // where the symlink points, if Op is OpSymlink or File is a symlink
	Stat   event.Stat // after the operation (for OpUnlink and OpRmdir: before)
	// Replaced is the inode that lost its name to OpRename, if any, or the one that got
	// the name Path in OpExchange.
	Replaced File
	Class    ignore.Class // of Path, or of Path2 if there is one and Path is excluded
	Class2   ignore.Class // of Path2
	Time     time.Time
}

// Observer receives everything that happens on the mount. The handler of a request calls it
// synchronously, holding no lock of fusefs. Methods return quickly, except that Before may wait
// for a limited time until the old content is safe; Change.Cancel ends that wait. No method can
// fail a request. Methods may be called from many goroutines at once. For one inode, the calls
// come in the order in which the operations took effect.
type Observer interface {
	// Before is called before an operation that destroys the content of a regular file: the
	// first write to a clean inode, a truncation, the removal or replacement of a name. Further
	// writes to the inode do not call it again until after the next Closed. For OpUnlink and
	// OpRename it is called for every name; if Stat().Nlink is 1, that name is the last. For a
	// new file it is not called until after the first Closed.
	Before(Change)
	// Closed is called after a file was closed. The package comment says what counts as closed.
	Closed(Closed)
	// Done is called after an operation on names or attributes has succeeded.
	Done(Event)
	// Opened is called after a file was opened read-only. It is called often.
	Opened(f File, c Caller)
	// Synced is called by fsync(2) after the source has synced the file. It returns when the
	// Observer's copy is durable as well, or after a limited time.
	Synced(f File, cancel <-chan struct{})
	// Outside is called when the overlay notices that a process changed a file on the source,
	// bypassing the mount.
	Outside(f File, before, after event.Stat)
}

// Finder is an Observer that also receives the state of files before their names or attributes
// change, because it may never have heard of them.
type Finder interface {
	// Found is called before a name is removed, moved or replaced, before the mode, owner or
	// attributes of its file change, and before its file gets another name. The operation may
	// still fail. It is not called when the last name of a regular file is removed, because
	// Before is. target is where a symlink points.
	Found(f File, name, target string, st event.Stat)
}

// Describer is an Observer that also receives the commands of processes.
type Describer interface {
	// Described is called when the command of a process becomes known. That may be before or
	// after the Observer's first call about that process.
	Described(p *Process)
}

// Releaser is an Observer that is also called when a handle that could write is released.
type Releaser interface {
	// Released is called by the request that ends the handle. Nobody waits for that request,
	// so some microseconds of work are cheaper here than in a goroutine that must be woken.
	// fd, if not negative, is a readable descriptor of the file for the duration of the call;
	// its offset must not be used.
	Released(f File, fd int)
}
