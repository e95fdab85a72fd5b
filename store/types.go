package store

import (
	"strings"
	"syscall"
	"time"

	"cachebro/store/content"
	"cachebro/store/leaf/event"
)

// Path is slash-separated and relative to the project's root, which is "". It is cleaned where it
// enters the program. It holds raw bytes, not necessarily UTF-8.
type Path string

// Inside reports whether p is dir or lies in its subtree.
func (p Path) Inside(dir Path) bool {
	rest, ok := strings.CutPrefix(string(p), string(dir))
	return ok && (dir == "" || rest == "" || rest[0] == '/')
}

// Dir returns the directory that contains p. For the root and for a name in it, that is the root.
func (p Path) Dir() Path { return p[:max(strings.LastIndexByte(string(p), '/'), 0)] }

// Hash is a SHA-256. The zero Hash means that there is no content.
type Hash = content.Hash

// SessionID is a client's own id of a session.
type SessionID string

// Types that the overlay and the spool use as well.
type (
	Op    = event.Op
	Class = event.Class // class of a path when the version was made
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
	OpMoved    = event.OpMoved // Path was renamed to To
	OpSeen     = event.OpSeen
)

// InodeOf returns the identity of the file that a Stat describes.
func InodeOf(st Stat) Inode { return event.InodeOf(st) }

// Actor describes who made a change, as far as known.
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
	Uncertain bool      `cbor:"11,keyasint,omitempty"` // several tool calls were open, and the process tree did not show which one it was
	Line      int64     `cbor:"12,keyasint,omitempty"` // the same for all changes that a terminal's foreground processes make between two inputs; see package capture
	Late      bool      `cbor:"13,keyasint,omitempty"` // written after the tool call ended, by a process that the call started
}

// Version is one entry of the append-only version log. It is immutable.
type Version struct {
	Seq    uint64 `cbor:"-"` // global order; stored in the key
	Path   Path   `cbor:"1,keyasint,omitempty"`
	Op     Op     `cbor:"2,keyasint,omitempty"`
	Class  Class  `cbor:"3,keyasint,omitempty"`
	From   Path   `cbor:"4,keyasint,omitempty"`
	To     Path   `cbor:"5,keyasint,omitempty"`
	Target string `cbor:"6,keyasint,omitempty"` // symlink
	Blob   Hash   `cbor:"7,keyasint,omitempty"`
	// NoContent is the reason why Blob is zero although the file had content: "too large", "gap:
	// …", "pruned", "purged". It is "" if no reason is needed.
	NoContent string `cbor:"8,keyasint,omitempty"`
	Time      int64  `cbor:"9,keyasint,omitempty"` // ns since the epoch
	Stat      Stat   `cbor:"10,keyasint,omitempty"`
	Actor     Actor  `cbor:"11,keyasint,omitempty"`
	// Prev is the Seq of the previous version of this path (for a rename, of From); 0 for the first
	// version.
	Prev uint64 `cbor:"12,keyasint,omitempty"`
	// Plan is the undo, redo, restore or revert that wrote the version; "": none.
	Plan string `cbor:"13,keyasint,omitempty"`
	// Idle means that the version was captured while a writer still had the file open.
	Idle bool `cbor:"14,keyasint,omitempty"`
	// Taken is when the content was read, in ns since the epoch, if that was later than Time (see
	// Fill). 0 means that it was read at Time.
	Taken int64 `cbor:"15,keyasint,omitempty"`
	// Foreign means that the content and the owner come from an import and were never observed on
	// this machine. Its owner IDs may belong to other people here.
	Foreign bool `cbor:"17,keyasint,omitempty"`
	// Linked is the time when the file last got a name that the history excludes, in ns since the
	// epoch, if later than Time. Stat.Nlink includes that name.
	Linked int64 `cbor:"18,keyasint,omitempty"`
}

// Values of Version.NoContent that the program acts on.
const (
	NoContentPurged  = "purged"                             // by Purge
	NoContentRenamed = "not captured before it was renamed" // an ignored file
)

// Deleted reports whether the path does not exist after this version. Excluded paths count as
// deleted, because the history does not record them.
func (v Version) Deleted() bool {
	return v.Op == OpUnlink || v.Op == OpRmdir || v.Op == OpMoved || v.Class == event.Excluded
}

// Excluded reports whether the path is excluded from the history. The version then only records
// that something changed at the path.
func (v Version) Excluded() bool { return v.Class == event.Excluded }

// TrackedFile reports whether the version is of an existing regular file that git tracks or would
// track. Without a mode, the operation decides.
func (v Version) TrackedFile() bool {
	kind := v.Stat.Mode & syscall.S_IFMT
	isFile := kind == syscall.S_IFREG || kind == 0 && v.Op != OpMkdir && v.Op != OpSymlink
	return isFile && !v.Deleted() && v.Class == event.Tracked
}

// When returns the version's time.
func (v Version) When() time.Time { return time.Unix(0, v.Time) }

// Change is the input of Apply. It describes a future version and carries its content.
type Change struct {
	Op     Op
	Class  Class
	Path   Path
	Path2  Path // the new name, for rename, exchange and link
	Target string
	Node   uint64 // identifies an inode within one mount; 0: unknown
	Stat   Stat
	Time   int64
	Actor  Actor
	// HasContent means that Content is set. Content is the file's whole content or, if TailFrom >
	// 0, the bytes that follow the first TailFrom bytes of Node's previous version.
	HasContent bool
	Content    []byte
	TailFrom   int64
	NoContent  string // why the content is missing
	LastName   bool   // the change removed the file's last name
	// NotRead marks a baseline made without reading the file's content. It is ignored if the file
	// is already known.
	NotRead bool
	Idle    bool
	// Plan is the ID of the undo, redo, restore or revert that this change is part of.
	Plan string
}

// Gap records that content should have been stored and was not.
type Gap struct {
	Path   Path   `cbor:"1,keyasint"`
	Time   int64  `cbor:"2,keyasint"`
	Reason string `cbor:"3,keyasint"`
	Seq    uint64 `cbor:"4,keyasint,omitempty"` // the version without content; 0: none
}

// Reader is the owner of one context window: a client session and one agent in it ("" is the main
// loop). The zero Reader is unknown and has been shown nothing.
type Reader struct {
	Session SessionID
	Agent   string
}

// Interval is a range of lines, 1-based, both ends included.
type Interval struct {
	First int `cbor:"1,keyasint"`
	Last  int `cbor:"2,keyasint"`
}

// Rendering names the way in which delivered text was made from the file's bytes.
type Rendering string

// The renderings.
const (
	RenderRaw        Rendering = "raw/1"     // the bytes themselves
	RenderClaudeRead Rendering = "cc-read/1" // Claude Code's Read: BOM dropped, CRLF to LF, invalid UTF-8 replaced, a final newline counts as a line
)
