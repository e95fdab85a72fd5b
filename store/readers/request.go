package readers

import (
	"errors"
	"time"

	"cachebro/store"
)

// ErrBeyondEnd means that the requested range begins after the last line.
var ErrBeyondEnd = errors.New("offset is beyond the end of the file")

// Request describes a reader's request for a file's current content.
type Request struct {
	Reader store.Reader
	// Known means that Reader is certain. An unknown reader is treated as having seen nothing
	// and receives full text. If ToolUse is set, a later Commit may still identify the
	// reader.
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
	DiffOffset    int  // line at which to continue a diff that was cut
	MaxTokens     int  // a longer answer is replaced by Large; 0: no limit
	Small         int  // an answer of more bytes may be cut on its way, so it does not count as shown; 0: no limit
	// Pending means that the answer counts only once a Commit for ToolUse contains it.
	Pending bool
	ToolUse string
	Tool    string // for the accounts
	Seq     uint64 // the version, copied into the answer
	// Listing means that Content is a directory listing with one item per line.
	Listing bool
	// Stub, if not nil, returns the wording of the answer "unchanged". base is the time at
	// which the text that the reader holds was delivered. If Stub is set, a diff that would
	// be cut is replaced by full text.
	Stub    func(base time.Time) string
	Rewrite *Rewrite
}

// Rewrite asks whether a client's own result is to be left alone or replaced.
type Rewrite struct {
	Rendering store.Rendering
	// StartLine and NumLines are the position of Text in the file, as the client counts
	// lines. If NumLines is 0, it is the number of lines in Text. If StartLine is below 1,
	// Text is the end of the file (tail).
	StartLine, NumLines int
	Text                string
	ClientUnchanged     bool // the client sent "file unchanged" without text; Offset and Limit are the requested range
	Part                int  // distinguishes several texts of one tool call
}

// Kinds of answers.
const (
	Full      = "full"
	Unchanged = "unchanged"
	Diff      = "diff"
	Span      = "span" // for a Rewrite, real lines around the change
	Keep      = "keep" // for a Rewrite, leave the client's result as it is
	// Large means that the answer is longer than MaxTokens. Nothing is sent and nothing
	// recorded.
	Large = "large"
)

// Answer is the answer to a Request. Token counts are estimates.
type Answer struct {
	Kind  string
	Label string // first line of what is sent; "" for full text and rewrites
	Text  string
	Note  string // for a Rewrite, sent in addition to the text
	// Start and NumLines are the lines of Text or, if the answer is "unchanged", of the
	// requested range. A rewritten stub has Start 0.
	Start, NumLines int
	TotalLines      int
	Tokens          int // of the sent text, label and note included
	FullTokens      int // of the requested lines
	Saved           int // FullTokens - Tokens
	Hash            store.Hash
	Seq             uint64
	BaseTime        time.Time // when the text that the answer builds on was delivered
	Binary          bool      // no text can be shown
	Matched         bool      // for a Rewrite, the client's text is part of the content
	Again           bool      // for Large, full text was due because the range was requested twice
}

// Sent returns the exact text for clients that receive label and text as one string.
func (a Answer) Sent() string {
	switch {
	case a.Label == "":
		return a.Text
	case a.Text == "":
		return a.Label
	}
	return a.Label + "\n" + a.Text
}
