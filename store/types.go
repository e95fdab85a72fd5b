package store

import (
	"time"

	"cachebro/store/content"
	"cachebro/store/leaf/event"
)

// Path is slash-separated, relative to the project's root and cleaned once at
// the edge; raw bytes, not necessarily UTF-8. "" is the root itself.
type Path string

// Inside reports whether p is dir or below it.
func (p Path) Inside(dir Path) bool {
	return dir == "" || p == dir || len(p) > len(dir) && p[len(dir)] == '/' && p[:len(dir)] == dir
}

// Hash is a SHA-256. The zero Hash means: no content.
type Hash = content.Hash

// SessionID is a client's own id of a session.
type SessionID string

// What the overlay and the spool call the same.
type (
	Op    = event.Op
	Class = event.Class // of a path when the version was made
	Stat  = event.Stat
	Inode = event.Inode
)

// The operations of the log.
const (
	OpOpen     = event.OpOpen
	OpCreate   = event.OpCreate
	OpWrite    = event.OpWrite
	OpTruncate = event.OpTruncate
	OpRename   = event.OpRename   // Path is the new name, From the old one
	OpExchange = event.OpExchange // Path and From changed places
	OpLink     = event.OpLink     // Path is the new name, From another name of the same inode
	OpUnlink   = event.OpUnlink
	OpSymlink  = event.OpSymlink
	OpMkdir    = event.OpMkdir
	OpRmdir    = event.OpRmdir
	OpChmod    = event.OpChmod
	OpMknod    = event.OpMknod
	OpBaseline = event.OpBaseline
	OpOutside  = event.OpOutside
	OpMoved    = event.OpMoved // Path went away by a rename to To
	OpSeen     = event.OpSeen
)

// InodeOf is the file that a Stat describes.
func InodeOf(st Stat) Inode { return event.InodeOf(st) }

// Actor is who did it, as far as known.
type Actor struct {
	PID       uint32    `cbor:"1,keyasint,omitempty"`
	Start     uint64    `cbor:"2,keyasint,omitempty"`
	UID       uint32    `cbor:"3,keyasint,omitempty"`
	Comm      string    `cbor:"4,keyasint,omitempty"`
	Args      string    `cbor:"5,keyasint,omitempty"`
	Session   SessionID `cbor:"6,keyasint,omitempty"`
	Agent     string    `cbor:"7,keyasint,omitempty"`
	Prompt    string    `cbor:"8,keyasint,omitempty"`
	ToolCall  string    `cbor:"9,keyasint,omitempty"`
	Tool      string    `cbor:"10,keyasint,omitempty"`
	Uncertain bool      `cbor:"11,keyasint,omitempty"` // several tool calls were open and the process tree did not tell them apart
	Line      int64     `cbor:"12,keyasint,omitempty"` // of a terminal: what its foreground did between two inputs has one number; see capture
	Late      bool      `cbor:"13,keyasint,omitempty"` // written after the tool call had ended, by a process that it started
}

// Version is one entry of the append-only version log. Immutable.
type Version struct {
	Seq    uint64 `cbor:"-"` // global order; it is the key
	Path   Path   `cbor:"1,keyasint,omitempty"`
	Op     Op     `cbor:"2,keyasint,omitempty"`
	Class  Class  `cbor:"3,keyasint,omitempty"`
	From   Path   `cbor:"4,keyasint,omitempty"`
	To     Path   `cbor:"5,keyasint,omitempty"`
	Target string `cbor:"6,keyasint,omitempty"` // symlink
	Blob   Hash   `cbor:"7,keyasint,omitempty"`
	// NoContent says why Blob is zero although the file had content: "too
	// large", "gap: …", "pruned", "purged", "".
	NoContent string `cbor:"8,keyasint,omitempty"`
	Time      int64  `cbor:"9,keyasint,omitempty"` // ns since the epoch
	Stat      Stat   `cbor:"10,keyasint,omitempty"`
	Actor     Actor  `cbor:"11,keyasint,omitempty"`
	// Prev is the Seq of the previous version of this path (of From for a
	// rename), 0 for the first one.
	Prev uint64 `cbor:"12,keyasint,omitempty"`
	// Plan is the undo, redo, restore or revert that wrote it, "" else.
	Plan string `cbor:"13,keyasint,omitempty"`
	// Idle: captured while a writer still had it open.
	Idle bool `cbor:"14,keyasint,omitempty"`
	// Taken is when the content was read, in ns since the epoch, where that was
	// later than Time (see Fill); 0 else.
	Taken int64 `cbor:"15,keyasint,omitempty"`
	// Foreign: the content, or who had it, is what an import says and nobody here has
	// seen. Its owners are perhaps other people here.
	Foreign bool `cbor:"17,keyasint,omitempty"`
	// Linked is when the file was last given a name of which nothing is kept, in
	// ns since the epoch, where that was later than Time: Stat counts it.
	Linked int64 `cbor:"18,keyasint,omitempty"`
}

// Reasons in Version.NoContent that say more than that there is none.
const (
	NoContentPurged  = "purged"                             // by Purge
	NoContentRenamed = "not captured before it was renamed" // an ignored file
)

// Deleted reports whether the path does not exist after this version, or nothing is
// kept of it: what is excluded is not there as far as the history goes.
func (v Version) Deleted() bool {
	return v.Op == OpUnlink || v.Op == OpRmdir || v.Op == OpMoved || v.Class == event.Excluded
}

// Excluded: the version is of a path of which nothing is kept. It says only that
// something was changed there.
func (v Version) Excluded() bool { return v.Class == event.Excluded }

// When is the version's time.
func (v Version) When() time.Time { return time.Unix(0, v.Time) }

// Change is what the daemon hands to Apply: a version to be, with content.
type Change struct {
	Op     Op
	Class  Class
	Path   Path
	Path2  Path // new name of rename, exchange, link
	Target string
	Node   uint64 // inode identity within one mount, 0 unknown
	Stat   Stat
	Time   int64
	Actor  Actor
	// HasContent: Content is the file's content, or, with TailFrom > 0, what
	// follows the first TailFrom bytes of the previous version of Node.
	HasContent bool
	Content    []byte
	TailFrom   int64
	NoContent  string // why there is none, where there should be
	LastName   bool
	// NotRead: a baseline that tells how a file was found, without its content.
	// It says nothing new of one that is known.
	NotRead bool
	Idle    bool
	// Plan is the ID of the undo, redo, restore or revert this is a part of.
	Plan string
}

// Gap is content that should have been kept and was not.
type Gap struct {
	Path   Path   `cbor:"1,keyasint"`
	Time   int64  `cbor:"2,keyasint"`
	Reason string `cbor:"3,keyasint"`
	Seq    uint64 `cbor:"4,keyasint,omitempty"` // the version without content, if there is one
}

// Reader is one context window's owner: a client session and, within it, one
// agent ("" is the main loop). The zero Reader is unknown and has seen nothing.
type Reader struct {
	Session SessionID
	Agent   string
}

// Interval is a range of lines, 1-based, both ends included.
type Interval struct {
	First int `cbor:"1,keyasint"`
	Last  int `cbor:"2,keyasint"`
}

// Rendering names how delivered text relates to the file's bytes.
type Rendering string

// The renderings.
const (
	RenderRaw        Rendering = "raw/1"     // the bytes themselves
	RenderClaudeRead Rendering = "cc-read/1" // Claude Code's Read: BOM dropped, CRLF to LF, invalid UTF-8 replaced, a final newline counts as a line
)
