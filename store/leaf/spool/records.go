package spool

import "cachebro/store/leaf/event"

// Kind of a record. The values are stored; never reuse one.
type Kind uint8

// The kinds of records in a log segment.
const (
	KindMount   Kind = iota + 1 // a mountd started: node ids and processes start anew
	KindUnmount                 // mountd ended in an orderly way
	KindProcess                 // a process that later records refer to
	KindDirty                   // the content of an inode is being modified from now on; Node 0: all inodes being modified have been reported
	KindVersion                 // something happened that makes a version (see Op)
	KindContent                 // position of the content of an earlier KindVersion
	KindGap                     // content was not kept although it should have been
	KindReads                   // files that one process opened for reading, aggregated
	KindNotice                  // one line for the log, such as: an excluded directory was deleted
	KindGit                     // a git file that determines the repository's state is about to change, or just has (see Was)
	KindBeside                  // Path was changed bypassing the mount; Stat is what was found, zero if nothing was
)

// NotRead is the reason in a baseline that records how a file was found without its content.
// The content is not read, because it is not about to be destroyed.
const NotRead = "not captured before it was renamed or changed"

// Was describes what a name in a git directory was before a KindGit. The values are stored;
// never reuse one.
type Was uint8

// The values of Was.
const (
	WasAbsent  Was = iota + 1
	WasInline      // Before holds the content
	WasKept        // Before names a file in the state directory's part for git
	WasBegin       // the first Len bytes of the present file, which is being appended to
	WasLink        // a symlink to Target
	WasDir         // a directory, empty by now
	WasSame        // as recorded before; the same process continues
	WasLost        // it was not saved; Reason tells why
	WasMoved       // a directory whose name is now Path2
	WasObjects     // the object directory of a repository from which objects are removed; they are saved
)

// Record is one entry of the log. Which fields are used depends on Kind; the others are zero
// and take no space.
type Record struct {
	Kind Kind
	// Seq is the record's position in the order of everything that happened on this project's
	// mounts. It is strictly increasing across segments and mounts, and assigned by the Writer.
	Seq  uint64
	Time int64 // ns since the epoch

	Op     event.Op
	Class  event.Class
	Path   string // project-relative, slash-separated, raw bytes
	Path2  string // new name
	Target string // symlink
	Node   uint64 // node id within this mount
	Stat   event.Stat
	// PID and Start identify a process of an earlier KindProcess; 0: unknown.
	PID   uint32
	Start uint64
	UID   uint32
	// Line groups changes made at a terminal. All changes of its foreground processes between
	// two inputs have the same number, and numbers increase. It is 0 without a terminal, or
	// for a background job.
	Line int64

	// The following fields are for KindVersion. HasContent means that a KindContent with For
	// == this Seq follows, unless mountd dies before.
	HasContent bool
	// TailFrom, if above 0, means that the content record holds only the bytes from this
	// offset on. The bytes before are those of the node's previous version.
	TailFrom int64
	// TooLarge means that the file is above the size limit. Stat holds its size, and Hash its
	// SHA-256 if that was computed.
	TooLarge bool
	Hash     []byte
	// LastName means that an unlink, or a rename over the path, removed the file's last name.
	LastName bool
	// Idle means that the content was captured while the file was still open.
	Idle bool

	// KindContent
	For  uint64 // Seq of the version
	File uint32 // content file number
	Off  int64
	Len  int64
	// Sum is the CRC-32C of the content bytes. After a power loss the log may be on the disk
	// while the content file is not.
	Sum uint32

	// KindProcess
	PPID   uint32
	PStart uint64 // start of the parent
	Comm   string
	Group  uint32 // process group
	// Args is the command line, shortened and without secrets, with NUL between its arguments
	// (a space, from older writers). It is "" if it is unknown or not known yet; then a second
	// record of the process may follow. Dir is the working directory.
	Args, Dir string
	Session   map[string]string

	// For KindGap, Reason is a short sentence ("store too slow", "no space left on the state
	// file system"), and For is the version concerned, 0 if none. Without a Reason nothing is lost:
	// a later version has what was being written. For KindNotice, Reason is
	// the line. For KindVersion, it is the reason why there is no content.
	Reason string

	// The following fields are for KindGit. Stat describes the file before the change.
	Was    Was
	Before []byte

	// KindReads
	Paths []string
	// More is the number of further reads of the same process (a scanner) that are not listed.
	More uint32

	// KindMount
	Mountpoint string
	Source     string
	Version    string
}
