package wire

import (
	"encoding/json"
	"time"
)

// MResults: ResultsRequest → ResultsAnswer, cached answers of tools. The body of a "put", and
// of the answer to a "get", is the value.
const MResults = "results"

// ResultsRequest names an operation in Do: get, put or clear. Tool and arguments form the key.
// Whether a cached answer is still valid is for the client to decide.
type ResultsRequest struct {
	Do         string          `json:"do"`
	Tool       string          `json:"tool,omitempty"`
	Args       json.RawMessage `json:"args,omitempty"`
	TTLSeconds int             `json:"ttl,omitempty"` // 0: the default of the cache
	// Shared: an entry shared between machines, valid for the tracked files as they are.
	// Otherwise it is this project's own.
	Shared bool `json:"shared,omitempty"`
}

// ResultsAnswer tells whether there is an entry, and since when.
type ResultsAnswer struct {
	Found bool      `json:"found,omitempty"`
	At    time.Time `json:"at,omitzero"`
}

// ResultsState is the part of the status about cached answers.
type ResultsState struct {
	Text  string          `json:"text"`
	Down  string          `json:"down,omitempty"` // the shared store is down, and why
	Stats json.RawMessage `json:"stats"`
}
