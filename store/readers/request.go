package readers

import (
	"errors"
	"time"

	"cachebro/store"
	"cachebro/store/wire"
)

// ErrBeyondEnd means that the requested range begins after the last line.
var ErrBeyondEnd = errors.New("offset is beyond the end of the file")

// Request is a reader's request for a file's current content.
type Request struct {
	Reader store.Reader
	// Known means that Reader is certain. An unknown reader counts as having seen nothing and
	// receives full text. If ToolUse is set, a later Commit may identify it.
	Known bool
	Path  store.Path
	// Renamed lists earlier names of the file, latest first.
	Renamed []store.Path
	Hash    store.Hash // hash of the current content
	// Content fetches the current content. It is not called if hashes alone determine the answer.
	Content func() ([]byte, error)
	// Offset and Limit are lines. Offset is 1-based; 0 means 1. Limit 0 means to the end.
	Offset, Limit int
	Force         bool // send full text
	DiffOffset    int  // line at which to continue a truncated diff
	MaxTokens     int  // wire.ReadLarge replaces a longer answer; 0: no limit
	Small         int  // an answer with more bytes may be cut on its way, so it does not count as shown; 0: no limit
	// Pending means that the answer counts only after a Commit for ToolUse contains it.
	Pending bool
	ToolUse string
	Tool    string // for the counts
	// Listing means that Content is a directory listing with one item per line.
	Listing bool
	// Stub, if not nil, returns the wording of the answer "unchanged". base is when the text that
	// the reader holds was delivered. If Stub is set, full text replaces a diff that would be
	// truncated.
	Stub    func(base time.Time) string
	Rewrite *Rewrite
}

// Rewrite asks whether to keep or replace a client's own result.
type Rewrite struct {
	Rendering store.Rendering
	// StartLine and NumLines are the position of Text in the file, in the client's line numbers.
	// NumLines 0 means the number of lines in Text. StartLine below 1 means that Text is the end of
	// the file (tail).
	StartLine, NumLines int
	Text                string
	ClientUnchanged     bool // the client sent "file unchanged" without text; Offset and Limit are the requested range
	Part                int  // distinguishes several texts of one tool call
}

// Answer is the answer to a Request. If it is "unchanged", Start and NumLines are the requested
// range; a rewritten stub has Start 0. Token counts are estimates.
type Answer struct {
	wire.ReadAnswer
	Text       string
	Tokens     int // number of tokens sent, with label and note
	FullTokens int // number of tokens of the requested lines
}

// Sent returns the exact text for a client that receives label and text as one string.
func (a Answer) Sent() string {
	switch {
	case a.Label == "":
		return a.Text
	case a.Text == "":
		return a.Label
	}
	return a.Label + "\n" + a.Text
}
