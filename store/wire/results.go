package wire

import "encoding/json"

// MResults takes a ResultsRequest and returns a ResultsAnswer. It concerns cached results of tools.
// The value is the body of a "put" and of the answer to a "get".
const MResults = "results"

// ResultsRequest names an operation in Do: get, put or clear. Tool and arguments form the key. The
// client decides whether a cached result is still valid.
type ResultsRequest struct {
	Do         string          `json:"do"`
	Tool       string          `json:"tool,omitempty"`
	Args       json.RawMessage `json:"args,omitempty"`
	TTLSeconds int             `json:"ttl,omitempty"` // 0: the cache's default
	// Shared selects an entry that several machines share and that is valid for the present state
	// of the tracked files. Otherwise the entry belongs to this project alone.
	Shared bool `json:"shared,omitempty"`
}

// ResultsAnswer reports whether an entry exists.
type ResultsAnswer struct {
	Found bool `json:"found,omitempty"`
}

// ResultsState is the part of the status about cached results.
type ResultsState struct {
	Text  string          `json:"text"`
	Down  string          `json:"down,omitempty"` // why the shared store is down
	Stats json.RawMessage `json:"stats"`
}

// MOutput takes an OutputRequest and returns Empty. A request with a body stores a command's whole
// output. A request without a body returns the output stored under ID in the answer's body.
const MOutput = "output"

// OutputRequest names one command's output.
type OutputRequest struct {
	Session string `json:"session,omitempty"` // session of the command; needed to store
	ID      string `json:"id"`
}
