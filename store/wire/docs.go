package wire

import "time"

// MDocs takes a DocsRequest and returns a DocsAnswer, which reports whether documents still
// describe the code.
const MDocs = "docs"

// DocsRequest names an operation in Do: check or mark. mark declares that the documents of the
// selected pairs are true now.
type DocsRequest struct {
	Do       string `json:"do"`
	Path     []byte `json:"path,omitempty"`     // only pairs with this document or code, or in this directory
	Name     string `json:"name,omitempty"`     // only pairs of the group with this name in cachebro.yml
	Explicit bool   `json:"explicit,omitempty"` // leave out inferred pairs
	Diff     bool   `json:"diff,omitempty"`     // include the diffs
	AsOf     uint64 `json:"as_of,omitempty"`    // for mark: true as of this version of the log; 0: now
	Edited   bool   `json:"edited,omitempty"`   // for mark: only pairs whose document was written after the code
	Reader   Reader `json:"reader,omitzero"`    // the reader that marks
}

// DocsAnswer lists the selected pairs, ordered by document. The answer to mark shows the marked
// pairs as they were before the mark.
type DocsAnswer struct {
	Seq      uint64    `json:"seq"` // state of the log
	Pairs    []DocPair `json:"pairs"`
	Stale    int       `json:"stale"`   // number of Pairs that a person should look at
	Missing  int       `json:"missing"` // number of pairs whose code does not exist and never did
	Problems []string  `json:"problems,omitempty"`
}

// DocPair is a document and the code that it describes.
type DocPair struct {
	Doc     []byte      `json:"doc"`
	Code    string      `json:"code"`  // path, directory or pattern
	How     string      `json:"how"`   // declared, comment, inferred
	State   string      `json:"state"` // ok, stale, missing
	AsOf    uint64      `json:"as_of,omitempty"`
	Since   time.Time   `json:"since,omitzero"` // when the document was last known to be true
	By      string      `json:"by,omitempty"`   // who declared that
	Changes []DocChange `json:"changes,omitempty"`
	Edited  bool        `json:"doc_edited,omitempty"` // the document was written after the newest change
	Gone    bool        `json:"doc_gone,omitempty"`
	Problem string      `json:"problem,omitempty"`
}

// DocChange is a file that has changed since the document was known to be true.
type DocChange struct {
	Path     []byte  `json:"path"`
	What     string  `json:"what"` // changed, added, deleted, moved
	To       []byte  `json:"to,omitempty"`
	First    Version `json:"first,omitzero"` // the first version that differs
	Last     Version `json:"last,omitzero"`
	Versions int     `json:"versions"`
	Added    int     `json:"added"`          // lines
	Removed  int     `json:"removed"`        // lines
	Lost     bool    `json:"lost,omitempty"` // the content at that time is not stored
	Diff     string  `json:"diff,omitempty"`
}

// MContext takes a ContextRequest and returns a ContextAnswer. The body is the bundle of a node of
// the project's graph (a text that describes the node), the changes in the bundle since the last
// answer, or a note that it has not changed.
const MContext = "context"

// ContextRequest asks for a bundle. A limit of zero means the default.
type ContextRequest struct {
	Reader    Reader `json:"reader"`
	Ref       string `json:"ref"` // a group of cachebro.yml, a file, a directory
	Depth     int    `json:"depth,omitempty"`
	MaxNodes  int    `json:"max_nodes,omitempty"`
	MaxChunks int    `json:"max_chunks,omitempty"`
	Force     bool   `json:"force,omitempty"` // send the whole bundle, even if this reader was shown it before
	// Graph requests the nodes and edges around Ref instead of the bundle. If Ref is empty, it
	// requests the graph of the whole project.
	Graph bool `json:"graph,omitempty"`
	// Anew means that everything is computed from the files, without cached results.
	Anew bool   `json:"anew,omitempty"`
	Tool string `json:"tool,omitempty"` // for the accounts
	// Pending and Small are as in ReadRequest.
	Pending bool `json:"pending,omitempty"`
	Small   int  `json:"small,omitempty"`
}

// ContextAnswer describes the text in the body.
type ContextAnswer struct {
	ReadAnswer
	Etag string `json:"etag"`
	// Kept means that the bundle came from the cache.
	Kept bool `json:"kept"`
}
