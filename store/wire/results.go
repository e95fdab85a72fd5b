package wire

import (
	"encoding/json"
	"time"
)

// MResults takes a ResultsRequest and returns a ResultsAnswer, about cached answers of tools.
// The body of a "put", and of the answer to a "get", is the value.
const MResults = "results"

// ResultsRequest names an operation in Do: get, put or clear. Tool and arguments form the
// key. The client decides whether a cached answer is still valid.
type ResultsRequest struct {
	Do         string          `json:"do"`
	Tool       string          `json:"tool,omitempty"`
	Args       json.RawMessage `json:"args,omitempty"`
	TTLSeconds int             `json:"ttl,omitempty"` // 0: the default of the cache
	// Shared selects an entry that machines share and that is valid for the present state of
	// the tracked files. Otherwise the entry belongs to this project.
	Shared bool `json:"shared,omitempty"`
}

// ResultsAnswer reports whether there is an entry, and when it was stored.
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
