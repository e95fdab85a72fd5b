package wire

import "time"

// MNotes is NotesRequest → NotesAnswer: what people and agents want remembered.
const MNotes = "notes"

// NotesRequest: Do is add (Text, Kind, Path), list (Kind, Path) or remove (IDs).
type NotesRequest struct {
	Do     string   `json:"do"`
	Text   string   `json:"text,omitempty"`
	Kind   string   `json:"kind,omitempty"`
	Path   []byte   `json:"path,omitempty"`
	IDs    []string `json:"ids,omitempty"`
	Limit  int      `json:"limit,omitempty"` // of list; 0: all
	Reader Reader   `json:"reader,omitzero"` // whose it is
}

// NotesAnswer: the note that was added, those that were removed, or the list,
// newest first.
type NotesAnswer struct {
	Notes []Note `json:"notes"`
	Added bool   `json:"added,omitempty"` // false: it was there already
	Total int    `json:"total"`           // of a list, those beyond the limit included
}

// Note is one note.
type Note struct {
	ID      string    `json:"id"` // not- and 8 hex digits
	Text    string    `json:"text"`
	Kind    string    `json:"kind"`
	Path    []byte    `json:"path,omitempty"` // where what it is about is now
	Was     []byte    `json:"was,omitempty"`  // where it was then, if that is elsewhere
	Gone    bool      `json:"gone,omitempty"` // it is no longer there
	Time    time.Time `json:"time"`
	Session string    `json:"session,omitempty"`
	Agent   string    `json:"agent,omitempty"`
	By      string    `json:"by,omitempty"`
}
