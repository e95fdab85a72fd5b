package wire

import "time"

// MDocs is DocsRequest → DocsAnswer: do the documents still say what the code does?
const MDocs = "docs"

// DocsRequest: Do is check, or mark: the documents of the selected pairs are
// true now.
type DocsRequest struct {
	Do       string `json:"do"`
	Path     []byte `json:"path,omitempty"`     // only pairs with this document or code, or below this directory
	Name     string `json:"name,omitempty"`     // or of this named group of cachebro.yml, if there is one
	Explicit bool   `json:"explicit,omitempty"` // leave out pairs that are only inferred
	Diff     bool   `json:"diff,omitempty"`     // with the diffs
	AsOf     uint64 `json:"as_of,omitempty"`    // of mark: as of this version of the log; 0: now
	Edited   bool   `json:"edited,omitempty"`   // of mark: only where the document was written after the code
	Reader   Reader `json:"reader,omitzero"`    // who marks
}

// DocsAnswer lists the selected pairs, ordered by document; of mark those that
// were marked, as they stood before.
type DocsAnswer struct {
	Seq      uint64    `json:"seq"` // as of this version of the log
	Pairs    []DocPair `json:"pairs"`
	Stale    int       `json:"stale"`   // of Pairs, those that need somebody's eyes
	Missing  int       `json:"missing"` // those whose code is not there and never was
	Problems []string  `json:"problems,omitempty"`
}

// DocPair is a document and the code that it is about.
type DocPair struct {
	Doc     []byte      `json:"doc"`
	Code    string      `json:"code"`  // path, directory or pattern
	How     string      `json:"how"`   // declared, comment, inferred
	State   string      `json:"state"` // ok, stale, missing
	AsOf    uint64      `json:"as_of,omitempty"`
	Since   time.Time   `json:"since,omitzero"` // when the document was last known to be true
	By      string      `json:"by,omitempty"`   // who said so
	Changes []DocChange `json:"changes,omitempty"`
	Edited  bool        `json:"doc_edited,omitempty"` // the document was written after the newest change
	Gone    bool        `json:"doc_gone,omitempty"`
	Problem string      `json:"problem,omitempty"`
}

// DocChange is a file that is otherwise than when the document was true.
type DocChange struct {
	Path     []byte  `json:"path"`
	What     string  `json:"what"` // changed, added, deleted, moved
	To       []byte  `json:"to,omitempty"`
	First    Version `json:"first,omitzero"` // the version that made it differ
	Last     Version `json:"last,omitzero"`
	Versions int     `json:"versions"`
	Added    int     `json:"added"`          // lines
	Removed  int     `json:"removed"`        // lines
	Lost     bool    `json:"lost,omitempty"` // what it was then is not kept any more
	Diff     string  `json:"diff,omitempty"`
}
