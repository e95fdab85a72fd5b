package wire

import "time"

// MComments: CommentsRequest → CommentsAnswer: what a person says to an agent about a
// line that it wrote.
const MComments = "comments"

// CommentsRequest: Do is add (Comment), list (of Path and Session, where they are
// given), pending (of Session, to be told now), claim (IDs: answers those that nobody else
// is telling, which the caller then tells), or delivered (IDs, which were told).
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
	// Deaf is the client of the session asked for, if it takes no text from hooks.
	Deaf string `json:"deaf,omitempty"`
}

// Comment is about one line of a version. It is delivered once, with the session's next
// prompt.
type Comment struct {
	ID      string    `json:"id"`
	Session string    `json:"session"`
	Path    []byte    `json:"path"`
	Seq     uint64    `json:"seq"`  // of the version
	Line    int       `json:"line"` // 1-based
	Quote   string    `json:"quote"`
	Text    string    `json:"text"`
	Time    time.Time `json:"time"`
	// Claimed is when a prompt took it along, Delivered when it was known to have it.
	Claimed   time.Time `json:"claimed,omitzero"`
	Delivered time.Time `json:"delivered,omitzero"`
}
