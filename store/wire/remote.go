package wire

import "time"

// MRemote takes a RemoteRequest and returns a RemoteState. It concerns the bucket that receives the
// history.
const MRemote = "remote"

// RemoteRequest names an operation.
type RemoteRequest struct {
	// Do is one of
	//   - "" to report only
	//   - add, for a remote at URL; Name is this computer's name
	//   - rm
	//   - send, for at most Within
	Do     string        `json:"do,omitempty"`
	URL    string        `json:"url,omitempty"`
	Name   string        `json:"name,omitempty"`
	Within time.Duration `json:"within,omitempty"`
	// Recipients are the age recipients to encrypt for.
	Recipients []string `json:"recipients,omitempty"`
}

// RemoteState reports what was sent.
type RemoteState struct {
	URL        string    `json:"url,omitempty"` // "": the history stays on this machine
	Machine    string    `json:"machine,omitempty"`
	Recipients []string  `json:"recipients,omitempty"` // if empty, the history is not encrypted
	Segments   uint64    `json:"segments,omitempty"`
	Versions   uint64    `json:"versions,omitempty"`
	Bytes      int64     `json:"bytes,omitempty"`
	Unsent     uint64    `json:"unsent"` // upper bound of the number of unsent versions
	Last       time.Time `json:"last,omitzero"`
	Note       string    `json:"note,omitempty"` // what the user should know about the ID
	// Error is why sending fails, Since is when it first failed, and Next is when it will be tried
	// again.
	Error string    `json:"error,omitempty"`
	Hint  string    `json:"hint,omitempty"`
	Since time.Time `json:"since,omitzero"`
	Next  time.Time `json:"next,omitzero"`
}
