package wire

// MContext takes a ContextRequest and returns a ContextAnswer. The body describes a node of the
// project's graph. It is the node's bundle, the changes in it since the last answer, or a note that
// it has not changed.

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
	// Pending is as in ReadRequest.
	Pending bool `json:"pending,omitempty"`
}

// ContextAnswer describes the text in the body.
type ContextAnswer struct {
	ReadAnswer
	Etag string `json:"etag"`
	// Kept means that the bundle came from the cache.
	Kept bool `json:"kept"`
}
