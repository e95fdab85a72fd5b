package wire

import "time"

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
	// Deaf is the client of the requested session, if it accepts no text from hooks.
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
