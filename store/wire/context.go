package wire

// MContext: ContextRequest → ContextAnswer. The body is the bundle of a node of the project's
// graph, what has changed in it, or the statement that it has not changed.

const MContext = "context"

// ContextRequest asks for a bundle. Bounds of zero are replaced by defaults.
type ContextRequest struct {
	Reader    Reader `json:"reader"`
	Ref       string `json:"ref"` // a group of cachebro.yml, a file, a directory
	Depth     int    `json:"depth,omitempty"`
	MaxNodes  int    `json:"max_nodes,omitempty"`
	MaxChunks int    `json:"max_chunks,omitempty"`
	Force     bool   `json:"force,omitempty"` // send the bundle itself, whatever this reader was shown
	// Graph: return the nodes and edges around Ref instead of the bundle; of the whole
	// project if Ref is empty.
	Graph bool `json:"graph,omitempty"`
	// Anew: compute everything from the files' contents, without cached results.
	Anew bool   `json:"anew,omitempty"`
	Tool string `json:"tool,omitempty"` // for the accounts
	// Pending: as in ReadRequest.
	Pending bool `json:"pending,omitempty"`
}

// ContextAnswer describes what was done; the text is the body.
type ContextAnswer struct {
	ReadAnswer
	Etag string `json:"etag"`
	// Kept: the bundle came from the cache.
	Kept bool `json:"kept"`
}
