package wire

import (
	"encoding/json"
	"time"
)

// MResults is ResultsRequest → ResultsAnswer: kept answers of tools; body of
// "put" and of the answer to "get": the value.
const MResults = "results"

// ResultsRequest: Do is get, put, clear. The arguments and the tool's name make
// the key; whether what was found still holds is for the client to see.
type ResultsRequest struct {
	Do         string          `json:"do"`
	Tool       string          `json:"tool,omitempty"`
	Args       json.RawMessage `json:"args,omitempty"`
	TTLSeconds int             `json:"ttl,omitempty"` // 0: the default of the cache
	// Shared: what machines share, for the tracked files as they are. Else it is this
	// project's own.
	Shared bool `json:"shared,omitempty"`
}

// ResultsAnswer says whether there is one, and since when.
type ResultsAnswer struct {
	Found bool      `json:"found,omitempty"`
	At    time.Time `json:"at,omitzero"`
}

// ResultsState is status' part about kept answers.
type ResultsState struct {
	Text  string          `json:"text"`
	Down  string          `json:"down,omitempty"` // the shared store, and why
	Stats json.RawMessage `json:"stats"`
}
