package wire

import "time"

// MRemote takes a RemoteRequest and returns a RemoteState, about the bucket to which a
// history is sent.
const MRemote = "remote"

// RemoteRequest names an operation.
type RemoteRequest struct {
	// Do is "" (only report), add (a remote at URL; Name is this computer's name), rm, or
	// send (now, for at most Within).
	Do     string        `json:"do,omitempty"`
	URL    string        `json:"url,omitempty"`
	Name   string        `json:"name,omitempty"`
	Within time.Duration `json:"within,omitempty"`
	// Recipients are the age recipients to encrypt for.
	Recipients []string `json:"recipients,omitempty"`
}

// RemoteState reports what has been sent and what has not.
type RemoteState struct {
	URL        string    `json:"url,omitempty"` // "": the history stays on this machine
	Machine    string    `json:"machine,omitempty"`
	Recipients []string  `json:"recipients,omitempty"` // if empty, the history is not encrypted
	Segments   uint64    `json:"segments,omitempty"`
	Versions   uint64    `json:"versions,omitempty"`
	Bytes      int64     `json:"bytes,omitempty"`
	Unsent     uint64    `json:"unsent"` // upper bound of the versions not sent
	Last       time.Time `json:"last,omitzero"`
	Note       string    `json:"note,omitempty"` // what the user should know about the id
	// Error is why sending fails, Since is the time of the first failure, Next is the time of
	// the next attempt.
	Error string    `json:"error,omitempty"`
	Hint  string    `json:"hint,omitempty"`
	Since time.Time `json:"since,omitzero"`
	Next  time.Time `json:"next,omitzero"`
}
