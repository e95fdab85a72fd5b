package wire

import "time"

// Requests for the read-only view of the tree as it was at a moment.
const (
	MMoment   = "moment"    // MomentQuery → Moment
	MPast     = "past"      // PastQuery → PastAnswer
	MPastRead = "past.read" // PastRead → Empty, body: the content
)

// MomentQuery names a moment by one of: a version, a time, the beginning of a session or of a
// prompt (an id, or "last").
type MomentQuery struct {
	Seq     uint64    `json:"seq,omitempty"`
	At      time.Time `json:"at,omitzero"`
	Session string    `json:"session,omitempty"`
	Prompt  string    `json:"prompt,omitempty"`
}

// Moment is a moment as its newest version; Seq 0: nothing had been recorded yet.
type Moment struct {
	Seq uint64    `json:"seq"`
	At  time.Time `json:"at,omitzero"` // when that version was made
}

// PastQuery asks for the entries directly below a path ("" is the root) as they were at Seq.
// With Versions it asks for every name that ever existed there and for the versions of the
// file itself.
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
	Why    string `json:"why,omitempty"` // why the content is not available
	Seq    uint64 `json:"seq,omitempty"`
}

// PastRead asks for a content named in a PastAnswer.
type PastRead struct {
	Hash string `json:"hash"`
}
