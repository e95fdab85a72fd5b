package wire

// MContext takes a ContextRequest and returns a ContextAnswer. The body is the bundle of a
// node of the project's graph, the changes in it since the last answer, or the statement that
// it has not changed.

const MContext = "context"

// ContextRequest asks for a bundle. Limits of zero are replaced by defaults.
type ContextRequest struct {
	Reader    Reader `json:"reader"`
	Ref       string `json:"ref"` // a group of cachebro.yml, a file, a directory
	Depth     int    `json:"depth,omitempty"`
	MaxNodes  int    `json:"max_nodes,omitempty"`
	MaxChunks int    `json:"max_chunks,omitempty"`
	Force     bool   `json:"force,omitempty"` // send the bundle itself, even if this reader was shown it before
	// Graph returns the nodes and edges around Ref instead of the bundle, or those of the
	// whole project if Ref is empty.
	Graph bool `json:"graph,omitempty"`
	// Anew computes everything from the files' contents, without cached results.
	Anew bool   `json:"anew,omitempty"`
	Tool string `json:"tool,omitempty"` // for the accounts
	// Pending means the same as in ReadRequest.
	Pending bool `json:"pending,omitempty"`
}

// ContextAnswer describes the text in the body.
type ContextAnswer struct {
	ReadAnswer
	Etag string `json:"etag"`
	// Kept means that the bundle came from the cache.
	Kept bool `json:"kept"`
}
