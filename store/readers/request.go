package readers

import (
	"errors"
	"time"

	"cachebro/store"
)

// ErrBeyondEnd: the asked range begins after the last line.
var ErrBeyondEnd = errors.New("offset is beyond the end of the file")

// Request asks what a reader gets for a file's current content.
type Request struct {
	Reader store.Reader
	// Known: Reader is certain. An unknown reader has seen nothing and gets
	// full text; with a ToolUse a later Commit may still tell who it was.
	Known bool
	Path  store.Path
	// Renamed: earlier names of this same file, the latest first.
	Renamed []store.Path
	Hash    store.Hash // of the current content
	// Content fetches the current content; it is not called when the answer
	// follows from hashes alone.
	Content func() ([]byte, error)
	// Offset and Limit are lines, 1-based; Offset 0 is 1, Limit 0 is to the end.
	Offset, Limit int
	Force         bool // full text, asked for
	DiffOffset    int  // go on with a diff that was cut
	MaxTokens     int  // what is longer is answered by Large; 0 is no limit
	Small         int  // an answer of more bytes may be cut on its way: it is not counted as shown; 0: any is
	// Pending: what is sent counts only when a Commit for ToolUse brings it.
	Pending bool
	ToolUse string
	Tool    string // for the accounts
	Seq     uint64 // the version, handed through
	// Listing: Content is a directory listing, one item a line.
	Listing bool
	// Stub, if not nil, words "unchanged": base is when the text that the reader
	// holds was delivered. A diff that would be cut is then sent as full text.
	Stub    func(base time.Time) string
	Rewrite *Rewrite
}

// Rewrite asks about a client's own result, to be left or replaced.
type Rewrite struct {
	Rendering store.Rendering
	// StartLine and NumLines are the lines that the client says Text is, in its
	// own counting. NumLines 0: as many as Text has. StartLine below 1: Text is
	// the end of the file (tail).
	StartLine, NumLines int
	Text                string
	ClientUnchanged     bool // the client sent no text but "file unchanged"; Offset and Limit are what was asked
	Part                int  // tells several texts of one tool call apart
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
	Note  string // Rewrite: goes beside the text
	// Start and NumLines are the lines of Text (for unchanged: of the asked
	// range); a rewritten stub has Start 0.
	Start, NumLines int
	TotalLines      int
	Tokens          int // of what is sent, label and note included
	FullTokens      int // of the asked lines
	Saved           int // FullTokens - Tokens
	Hash            store.Hash
	Seq             uint64
	BaseTime        time.Time // when the text that this rests on was delivered
	Binary          bool      // no text can be shown
	Matched         bool      // Rewrite: the client's text is the content's
	Again           bool      // Large: the text was due because it was asked for twice
}

// Sent is the exact text for clients that get label and text as one.
func (a Answer) Sent() string {
	switch {
	case a.Label == "":
		return a.Text
	case a.Text == "":
		return a.Label
	}
	return a.Label + "\n" + a.Text
}
