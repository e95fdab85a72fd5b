package readers

import (
	"errors"
	"time"

	"cachebro/store"
)

// ErrBeyondEnd means that the asked range begins after the last line.
var ErrBeyondEnd = errors.New("offset is beyond the end of the file")

// Request asks what a reader gets for a file's current content.
type Request struct {
	Reader store.Reader
	// Known: Reader is certain. An unknown reader has seen nothing and gets full text. If
	// ToolUse is set, a later Commit may still tell who it was.
	Known bool
	Path  store.Path
	// Renamed lists earlier names of this same file, latest first.
	Renamed []store.Path
	Hash    store.Hash // of the current content
	// Content fetches the current content. It is not called if the answer follows from
	// hashes alone.
	Content func() ([]byte, error)
	// Offset and Limit are lines, 1-based; Offset 0 is 1, Limit 0 is to the end.
	Offset, Limit int
	Force         bool // the caller wants full text
	DiffOffset    int  // continue a diff that was cut, at this line
	MaxTokens     int  // a longer answer is replaced by Large; 0: no limit
	Small         int  // an answer of more bytes may be cut on its way, so it does not count as shown; 0: no limit
	// Pending: the answer counts only once a Commit for ToolUse brings it.
	Pending bool
	ToolUse string
	Tool    string // for the accounts
	Seq     uint64 // the version, copied into the answer
	// Listing: Content is a directory listing, one item a line.
	Listing bool
	// Stub, if not nil, words the answer "unchanged"; base is when the text that the reader
	// holds was delivered. A diff that would be cut is then replaced by full text.
	Stub    func(base time.Time) string
	Rewrite *Rewrite
}

// Rewrite asks whether a client's own result is to be left alone or replaced.
type Rewrite struct {
	Rendering store.Rendering
	// StartLine and NumLines say which lines Text is, as the client counts them. NumLines 0:
	// as many as Text has. StartLine below 1: Text is the end of the file (tail).
	StartLine, NumLines int
	Text                string
	ClientUnchanged     bool // the client sent "file unchanged" without text; Offset and Limit are the range asked for
	Part                int  // distinguishes several texts of one tool call
}

// Kinds of answers.
const (
	Full      = "full"
	Unchanged = "unchanged"
	Diff      = "diff"
	Span      = "span" // Rewrite: real lines around the change
	Keep      = "keep" // Rewrite: leave the client's result as it is
	// Large: longer than MaxTokens. Nothing is sent and nothing recorded.
	Large = "large"
)

// Answer is what the reader gets. Token counts are estimates.
type Answer struct {
	Kind  string
	Label string // first line of what is sent; "" for full text and rewrites
	Text  string
	Note  string // Rewrite: sent in addition to the text
	// Start and NumLines are the lines of Text (for unchanged: of the asked range). A
	// rewritten stub has Start 0.
	Start, NumLines int
	TotalLines      int
	Tokens          int // of what is sent, label and note included
	FullTokens      int // of the asked lines
	Saved           int // FullTokens - Tokens
	Hash            store.Hash
	Seq             uint64
	BaseTime        time.Time // when the text that the answer builds on was delivered
	Binary          bool      // no text can be shown
	Matched         bool      // Rewrite: the client's text is part of the content
	Again           bool      // Large: full text was due because the range was asked for twice
}

// Sent returns the exact text for clients that get label and text as one.
func (a Answer) Sent() string {
	switch {
	case a.Label == "":
		return a.Text
	case a.Text == "":
		return a.Label
	}
	return a.Label + "\n" + a.Text
}
