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
	Start  uint64 // as procfs.Stat has it
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

	// Front is set if its process group was in the foreground of its terminal when last looked
	// at. Then it is not a background job.
	Front atomic.Bool

	command atomic.Pointer[Command]
	peeks   atomic.Int32 // how often processes.peek looked at it
	peeked  atomic.Int64 // when processes.peek last looked, in Unix ns
}

// Command is the command line with which a process was started, secrets included.
type Command struct {
	Args []string // the first ones, some KiB of them
	Cut  bool     // there are more
	Dir  string   // its working directory, "" if unknown
}

// Command returns nil until the command is known, and always if it cannot be read. It
// is read in the background; no request waits for it.
func (p *Process) Command() *Command { return p.command.Load() }

// SetCommand sets the command of a process that has ended, for code that knows it.
func (p *Process) SetCommand(c *Command) { p.command.Store(c) }

// File is an inode as an Observer sees it. An Observer may use it after the call that passed it, but
// Open and Path return the state at the moment when they are called.
type File interface {
	// ID returns the node id, which is never reused within one mount.
	ID() uint64
	// Path returns one current name, slash-separated and relative to the root. It returns "" if
	// there is no name any more.
	Path() string
	// Paths returns all current names that are known, Path first. There may be more names that
	// were never looked up; then Stat().Nlink is greater.
	Paths() []string
	// Open returns a new read-only descriptor of the content on the source. It works even if the
	// last name was removed, as long as a handle is open. It never goes through the mountpoint. It
	// returns ESTALE if the inode cannot be found any more.
	Open() (*os.File, error)
	// Stat returns the present attributes from the source.
	Stat() (event.Stat, error)
	// At calls fn with a path that leads to the inode on the source and to nothing else, for
	// functions that need a path, such as those for extended attributes. It returns ENOTSUP if
	// the system has no such path.
	At(fn func(path string) error) error
	// Mark returns 31 bits that the Observer may use as it likes, and MarkTimes. They are zero at
	// first and after the kernel has forgotten the inode.
	Mark() *atomic.Uint32
}

// MarkTimes is set in a File's Mark before its times are set through the mount, while the
// inode's order is held. Code that compares the times with earlier ones must ignore a difference
// while it is set. The Observer clears it.
const MarkTimes uint32 = 1 << 31

// TailMin is the minimum length of the unchanged beginning of a file for which TailFrom is
// reported. With a shorter beginning, an Observer that stores only the appended part saves nothing.
const TailMin = 4 << 10

// Change describes what is about to happen to a file's content.
type Change struct {
	File   File
	Caller Caller
	Op     event.Op // OpWrite, OpTruncate, OpUnlink, OpRename (is being replaced)
	// Name is the name that is removed or replaced, for OpUnlink and OpRename.
	Name string
	// Append means that the first write is at the end, by a handle that can write nowhere else.
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
	// TailFrom, if ≥ 0, means that all bytes before this offset are as they were at the previous
	// close of this inode or, if there was none, at its Before. It is -1 if that is unknown, 0 if
	// a process may have written to the source directly, and Stat.Size if the content did not
	// change.
	TailFrom int64
	// LastPath is File.Path() or, if there is no name any more, the last name.
	LastPath string
	// Idle means that no process closed the file; it merely was not written to for a while.
	Idle bool
	// Held means that a handle was flushed and is not released yet. A Releaser is called at its
	// RELEASE, which usually follows at once.
	Held bool
	Time time.Time
}

// Event is an operation on names or attributes that succeeded.
type Event struct {
	Op     event.Op
	File   File // the inode; nil for OpRmdir and if it is not known
	Caller Caller
	Path   string
	Path2  string     // OpRename, OpExchange, OpLink: the new name
	Target string     // where the symlink points; for OpSymlink, and for OpUnlink, OpRename or OpLink of a symlink
	Stat   event.Stat // after the operation (for OpUnlink and OpRmdir: before)
	// Replaced is the inode that lost its name to OpRename, if any, or the one that got
	// the name Path in OpExchange.
	Replaced File
	Class    ignore.Class // of Path, or of Path2 if there is one and Path is excluded
	Class2   ignore.Class // of Path2
	Time     time.Time
}

// Observer receives everything that happens on the mount, synchronously from the handler of the
// request. A handler holds no lock of fusefs while it calls. Methods return quickly, except
// Before, which may wait until the old content is safe (bounded, and ended by Change.Cancel). No
// method can fail a request. Methods may be called from many goroutines at once; for one inode,
// the order of calls is the order in which operations took effect.
type Observer interface {
	// Before is called before an operation that destroys content: the first write to a clean
	// inode, a truncation, the unlinking or replacing of a name. After a Closed the next
	// modification calls Before again; between Before and Closed further writes to the same
	// inode do not. For OpUnlink and OpRename it is called for every name; Stat().Nlink tells
	// whether it is the last. It is called for regular files only. A file that was made is
	// written without it until its first Closed.
	Before(Change)
	// Closed: see the package comment for what counts as closed.
	Closed(Closed)
	// Done: an operation on names or attributes has succeeded.
	Done(Event)
	// Opened: a file was opened for reading (reads only; a hot path).
	Opened(f File, c Caller)
	// Synced: fsync(2) was called and the source has synced the file; returns
	// when the content is durable on the observer's side as well (bounded).
	Synced(f File, cancel <-chan struct{})
	// Outside: the overlay noticed that a process changed a file on the source, without
	// going through the mount.
	Outside(f File, before, after event.Stat)
}

// Finder is an Observer that wants to see the state of a name that it may not have heard
// of before the name is removed, moved or replaced, before its mode, owner or attributes
// change, and before its file gets another name. It is not called for the last name of a
// regular file that is removed, because Before is. The operation may still fail. target
// is where a symlink points.
type Finder interface {
	Found(f File, name, target string, st event.Stat)
}

// Describer is an Observer that wants to know when the command of a process becomes
// known, which may be before or after it is told what the process does.
type Describer interface {
	Described(p *Process)
}

// Releaser is an Observer that wants to know when a handle that could write ends.
// Nobody waits for that request, so some microseconds of work are cheaper there than
// in a goroutine that must be woken. fd, if not negative, is a readable descriptor of
// the file for the duration of the call; its offset must not be used.
type Releaser interface {
	Released(f File, fd int)
}
