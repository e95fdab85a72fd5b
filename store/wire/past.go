package wire

import "time"

// Requests for the read-only view of the tree at a past point in time.
const (
	MMoment   = "moment"    // MomentQuery → Moment
	MPast     = "past"      // PastQuery → PastAnswer
	MPastRead = "past.read" // PastRead → Empty, body: the content
)

// MomentQuery names a point in time by one of: a version, a time, the beginning of a session, the
// beginning of a prompt. Sessions and prompts are given by their ID or "last".
type MomentQuery struct {
	Seq     uint64    `json:"seq,omitempty"`
	At      time.Time `json:"at,omitzero"`
	Session string    `json:"session,omitempty"`
	Prompt  string    `json:"prompt,omitempty"`
}

// Moment is a point in time. Seq is the newest version at that time, or 0 if nothing had been
// recorded yet.
type Moment struct {
	Seq uint64    `json:"seq"`
	At  time.Time `json:"at,omitzero"` // when version Seq was made
}

// PastQuery asks for the direct children of a path ("" is the root) at version Seq. With Versions,
// it asks for every child that ever existed, or for the versions of a file.
type PastQuery struct {
	Seq      uint64 `json:"seq,omitempty"`
	Path     []byte `json:"path,omitempty"`
	Versions bool   `json:"versions,omitempty"`
}

// PastAnswer is sorted by name. If the directory did not exist, the answer is ErrNotFound.
type PastAnswer struct {
	Entries []PastEntry `json:"entries"`
}

// PastEntry is the past state of a file, directory or link.
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
