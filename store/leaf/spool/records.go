package spool

import "cachebro/store/leaf/event"

// Kind of a record. The values are on disk; never reuse one.
type Kind uint8

// The kinds of records in a log segment.
const (
	KindMount   Kind = iota + 1 // a mountd started: node ids and processes start anew
	KindUnmount                 // it ended in order
	KindProcess                 // a process that later records refer to
	KindDirty                   // the content of an inode is being modified from now on; Node 0: those that are have been told
	KindVersion                 // something happened that is a version (see Op)
	KindContent                 // where the content of an earlier KindVersion lies
	KindGap                     // content that should have been kept and was not
	KindReads                   // files that one process opened for reading, aggregated
	KindNotice                  // one line for the log: an excluded directory was deleted, …
	KindGit                     // what says how a git repository stands is about to change, or just has (see Was)
	KindBeside                  // somebody did something to Path without the mount; Stat is how it was found, zero: not there
)

// NotRead is the reason of a baseline that tells how a file was found, and not what it
// held: nothing threatens that.
const NotRead = "not captured before it was renamed or changed"

// Was says what a name of a git directory stood for before a KindGit. The values are on
// disk; never reuse one.
type Was uint8

// What there was.
const (
	WasAbsent  Was = iota + 1
	WasInline      // Before holds the content
	WasKept        // the file in the state directory's part for git that Before names
	WasBegin       // the first Len bytes of what is there now: it is being appended to
	WasLink        // a symlink to Target
	WasDir         // a directory, empty by now
	WasSame        // as said before: the same process goes on
	WasLost        // Reason says why it is not kept
	WasMoved       // a directory that has the name Path2 now
	WasObjects     // the directory of a repository's objects, which is losing some; they are kept
)

// Record is one entry of the log. Which fields count depends on Kind; the
// others are zero and cost nothing on disk.
type Record struct {
	Kind Kind
	// Seq is the record's position in the order of everything that happened
	// on this project's mounts: strictly increasing, across segments and
	// mounts, assigned by the Writer.
	Seq  uint64
	Time int64 // ns since the epoch

	Op     event.Op
	Class  event.Class
	Path   string // project-relative, slash-separated, raw bytes
	Path2  string // new name
	Target string // symlink
	Node   uint64 // node id within this mount
	Stat   event.Stat
	// PID and Start name a process of an earlier KindProcess; 0: unknown.
	PID   uint32
	Start uint64
	UID   uint32
	// Line tells apart what was typed at a terminal: what the foreground there does
	// between two inputs has one number. They grow. 0: no terminal, or a background job.
	Line int64

	// KindVersion with content: HasContent says that a KindContent with
	// For == this Seq follows, unless mountd dies before.
	HasContent bool
	// TailFrom > 0: the content record holds only the bytes from here on; the
	// ones before are those of the node's previous version.
	TailFrom int64
	// TooLarge: the file is above the size limit; Stat holds its size, and
	// Hash its SHA-256 when it was computed.
	TooLarge bool
	Hash     []byte
	// LastName: for unlink and rename over: no other name was left.
	LastName bool
	// Idle: captured while still open.
	Idle bool

	// KindContent
	For  uint64 // Seq of the version
	File uint32 // content file number
	Off  int64
	Len  int64
	// Sum is the CRC-32C of the content bytes: after a power loss the log may
	// have reached the disk when the content file had not.
	Sum uint32

	// KindProcess
	PPID   uint32
	PStart uint64 // start of the parent
	Comm   string
	Group  uint32 // process group
	// Args is the command line, with NUL between its arguments (a space, from older
	// writers), cut and without secrets. It is "" where it is unknown, or not yet
	// known: then a second record of the process may follow. Dir is the working
	// directory.
	Args, Dir string
	Session   map[string]string

	// KindGap: Reason is a short sentence ("store too slow", "no space left
	// on the state file system"); For the version concerned, 0 if none.
	// KindNotice: the line. KindVersion: why there is no content.
	Reason string

	// KindGit: Stat is that of before.
	Was    Was
	Before []byte

	// KindReads
	Paths []string
	// More reads of the same process that are not listed (a scanner).
	More uint32

	// KindMount
	Mountpoint string
	Source     string
	Version    string
}
