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
