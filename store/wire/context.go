package wire

// MContext is ContextRequest → ContextAnswer; the body is the bundle of a node of
// the project's graph, what changed in it, or that it has not changed.

const MContext = "context"

// ContextRequest asks for a bundle. Zero bounds are the defaults.
type ContextRequest struct {
	Reader    Reader `json:"reader"`
	Ref       string `json:"ref"` // a group of cachebro.yml, a file, a directory
	Depth     int    `json:"depth,omitempty"`
	MaxNodes  int    `json:"max_nodes,omitempty"`
	MaxChunks int    `json:"max_chunks,omitempty"`
	Force     bool   `json:"force,omitempty"` // the bundle itself, whatever this reader was shown
	// Graph: not the bundle but the nodes and edges around Ref, of the whole
	// project where that is empty.
	Graph bool `json:"graph,omitempty"`
	// Anew: make everything from the files' contents, use nothing that was kept.
	Anew bool   `json:"anew,omitempty"`
	Tool string `json:"tool,omitempty"` // for the ledger
	// Pending: as in ReadRequest.
	Pending bool `json:"pending,omitempty"`
}

// ContextAnswer is what was done for it; the text is the body.
type ContextAnswer struct {
	ReadAnswer
	Etag string `json:"etag"`
	// Kept: the bundle was not made now.
	Kept bool `json:"kept"`
}
