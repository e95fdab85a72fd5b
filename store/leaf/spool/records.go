package spool

import "cachebro/store/leaf/event"

// Kind is the kind of a record. The values are stored; never reuse one.
type Kind uint8

// The kinds of records in a log segment.
const (
	KindMount   Kind = iota + 1 // a mountd started: node ids and processes are counted anew
	KindUnmount                 // mountd exited in an orderly way
	KindProcess                 // a process that later records refer to
	KindDirty                   // the content of an inode is being modified from now on; Stat is set only if the inode has several names; Node 0: all such inodes have been reported
	KindVersion                 // something made a version (see Op)
	KindContent                 // where the content of an earlier KindVersion is
	KindGap                     // content should have been saved and was not
	KindReads                   // files that one process opened for reading, in one record
	KindNotice                  // one line for the log, such as "an excluded directory was deleted"
	KindGit                     // a git file that determines the repository's state is about to change, or has just changed (see Was)
	// KindBeside means that Path was changed without going through the mount. Stat describes the
	// present file, and is zero if there is none. With event.OpBaseline, ignored files may be tracked
	// now, so the daemon must scan as soon as all files that are being written are reported.
	KindBeside
)

// NotRead is the reason in a baseline whose content was not read. Reading was unnecessary, because
// the content was not about to be destroyed.
const NotRead = "not captured before it was renamed or changed"

// Was describes the state of a git directory entry before a KindGit. The values are stored; never
// reuse one.
type Was uint8

// The values of Was.
const (
	WasAbsent  Was = iota + 1
	WasInline      // Before holds the content
	WasKept        // Before is the name of a file in the state directory's git directory
	WasBegin       // the first Len bytes of the present file, which is being appended to or gets another mode or owner
	WasLink        // a symlink to Target
	WasDir         // a directory, which is removed or gets another mode or owner
	WasSame        // see the previous KindGit of Path; the same process continues to change it
	WasLost        // not saved; Reason says why
	WasMoved       // a directory that was renamed to Path2
	WasObjects     // a repository's object directory from which objects are removed; they are saved. With Reason, objects got other modes or owners, which are not saved
)

// Record is one entry of the log. Kind determines which fields are used. The others are zero and
// take no space.
type Record struct {
	Kind Kind
	// Seq orders everything that happened on this project's mounts. The Writer assigns it. It
	// strictly increases across segments and mounts.
	Seq  uint64
	Time int64 // ns since the epoch

	Op     event.Op
	Class  event.Class
	Path   string // project-relative, slash-separated, raw bytes
	Path2  string // the new name
	Target string // target of a symlink
	Node   uint64 // node id within this mount
	Stat   event.Stat
	// PID and Start identify the process of an earlier KindProcess; 0: unknown.
	PID   uint32
	Start uint64
	UID   uint32
	// Line groups changes made at a terminal. All changes that the terminal's foreground processes
	// make between two inputs have the same number, and numbers increase. It is 0 without a
	// terminal and for background jobs.
	Line int64

	// The following fields are for KindVersion. HasContent means that a KindContent with For ==
	// this Seq follows, unless mountd dies first.
	HasContent bool
	// TailFrom, if above 0, means that the content record holds only the bytes from this offset on.
	// The bytes before it are from the node's previous version.
	TailFrom int64
	// TooLarge means that the file is above the size limit. Stat holds its size. Hash holds its
	// SHA-256, if computed.
	TooLarge bool
	Hash     []byte
	// LastName means that an unlink, or a rename over the path, removed the file's last name.
	LastName bool
	// Idle means that the content was captured while the file was still open.
	Idle bool

	// The following fields are for KindContent.
	For  uint64 // Seq of the version
	File uint32 // number of the content file
	Off  int64
	Len  int64
	// Sum is the CRC-32C of the content bytes. After a power loss the log may be on the disk and
	// the content file not.
	Sum uint32

	// The following fields are for KindProcess.
	PPID   uint32
	PStart uint64 // start time of the parent
	Comm   string
	Group  uint32 // process group
	// Args is the command line, shortened and without secrets, with NUL between its arguments (a
	// space, from older writers). It is "" if unknown. A second record of the process may supply it
	// later. Dir is the working directory.
	Args, Dir string
	Session   map[string]string

	// For KindGap, Reason is a short sentence ("store too slow", "no space left on the state file
	// system"). For is the version concerned, 0 if none. If Reason is "", nothing was lost, because
	// a later version has the content. For KindNotice, Reason is the line. For KindVersion, it is
	// why the content is missing.
	Reason string

	// The following fields are for KindGit. Stat describes the file before the change.
	Was    Was
	Before []byte

	// For KindReads, Paths lists the files.
	Paths []string
	// More is the number of further reads of the same process that are not listed.
	More uint32

	// The following fields are for KindMount.
	Mountpoint string
	Source     string
	Version    string
}
