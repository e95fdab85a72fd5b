package wire

import "time"

// MNotes takes a NotesRequest and returns a NotesAnswer. Notes are short texts that users and
// agents store for later sessions.
const MNotes = "notes"

// NotesRequest names an operation in Do: add (Text, Kind, Path), list (Kind, Path) or remove
// (IDs).
type NotesRequest struct {
	Do     string   `json:"do"`
	Text   string   `json:"text,omitempty"`
	Kind   string   `json:"kind,omitempty"`
	Path   []byte   `json:"path,omitempty"`
	IDs    []string `json:"ids,omitempty"`
	Limit  int      `json:"limit,omitempty"` // for list; 0: all
	Reader Reader   `json:"reader,omitzero"` // author of the note
}

// NotesAnswer holds the added note, the removed notes, or the list, newest first.
type NotesAnswer struct {
	Notes []Note `json:"notes"`
	Added bool   `json:"added,omitempty"` // false if the note already existed
	Total int    `json:"total"`           // number of notes, also beyond the limit
}

// Note is one note.
type Note struct {
	ID      string    `json:"id"` // "not-" and 8 hex digits
	Text    string    `json:"text"`
	Kind    string    `json:"kind"`
	Path    []byte    `json:"path,omitempty"` // present path of the file that the note is about
	Was     []byte    `json:"was,omitempty"`  // the file's path when the note was written, if different
	Gone    bool      `json:"gone,omitempty"` // the file no longer exists
	Time    time.Time `json:"time"`
	Session string    `json:"session,omitempty"`
	Agent   string    `json:"agent,omitempty"`
	By      string    `json:"by,omitempty"`
}

// MComments takes a CommentsRequest and returns a CommentsAnswer. A comment is a remark of the user
// to an agent about a line that the agent wrote.
const MComments = "comments"

// CommentsRequest names an operation in Do:
//   - add stores Comment.
//   - list returns the comments, restricted to Path and Session if set.
//   - pending returns the comments to deliver to Session now.
//   - claim claims IDs, and returns the comments that nobody else has claimed. The caller then
//     delivers them.
//   - delivered marks IDs as delivered.
type CommentsRequest struct {
	Do      string   `json:"do"`
	Comment Comment  `json:"comment,omitzero"`
	Session string   `json:"session,omitempty"`
	Path    []byte   `json:"path,omitempty"`
	IDs     []string `json:"ids,omitempty"`
}

// CommentsAnswer lists comments, oldest first.
type CommentsAnswer struct {
	Comments []Comment `json:"comments,omitempty"`
	// Deaf names the client of the requested session if that client accepts no text from hooks.
	Deaf string `json:"deaf,omitempty"`
}

// Comment is a comment on one line of a version. It is delivered once, with the session's
// next prompt.
type Comment struct {
	ID      string    `json:"id"`
	Session string    `json:"session"`
	Path    []byte    `json:"path"`
	Seq     uint64    `json:"seq"`  // the version
	Line    int       `json:"line"` // 1-based
	Quote   string    `json:"quote"`
	Text    string    `json:"text"`
	Time    time.Time `json:"time"`
	// Claimed is when the comment was attached to a prompt. Delivered is when the delivery was
	// confirmed.
	Claimed   time.Time `json:"claimed,omitzero"`
	Delivered time.Time `json:"delivered,omitzero"`
}
