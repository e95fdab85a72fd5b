package wire

import "time"

// Requests about how the tree was at a moment, for the read-only view of it.
const (
	MMoment   = "moment"    // MomentQuery → Moment
	MPast     = "past"      // PastQuery → PastAnswer
	MPastRead = "past.read" // PastRead → Empty, body: the content
)

// MomentQuery names a moment in one way: by a version, a time, the beginning of a
// session or of a prompt (an id, or last).
type MomentQuery struct {
	Seq     uint64    `json:"seq,omitempty"`
	At      time.Time `json:"at,omitzero"`
	Session string    `json:"session,omitempty"`
	Prompt  string    `json:"prompt,omitempty"`
}

// Moment is the newest version that belongs to it; 0: nothing was recorded then.
type Moment struct {
	Seq uint64    `json:"seq"`
	At  time.Time `json:"at,omitzero"` // when that version was made
}

// PastQuery asks for what is directly below a path ("" is the root): as it was at
// Seq, or, with Versions, every name that was ever there and the versions of the file
// itself.
type PastQuery struct {
	Seq      uint64 `json:"seq,omitempty"`
	Path     []byte `json:"path,omitempty"`
	Versions bool   `json:"versions,omitempty"`
}

// PastAnswer is sorted by name. ErrNotFound: there was no such directory.
type PastAnswer struct {
	Entries []PastEntry `json:"entries"`
}

// PastEntry is a file, directory or link as it was.
type PastEntry struct {
	Name   []byte `json:"name"` // without its directory
	Mode   uint32 `json:"mode"` // st_mode
	Size   int64  `json:"size,omitempty"`
	Mtime  int64  `json:"mtime,omitempty"` // ns
	UID    uint32 `json:"uid,omitempty"`
	GID    uint32 `json:"gid,omitempty"`
	Target []byte `json:"target,omitempty"`
	Hash   string `json:"hash,omitempty"`
	Why    string `json:"why,omitempty"` // the content cannot be told: the reason
	Seq    uint64 `json:"seq,omitempty"`
}

// PastRead asks for a content that PastAnswer told of.
type PastRead struct {
	Hash string `json:"hash"`
}
