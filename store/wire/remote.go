package wire

import "time"

// MRemote is about the bucket to which a history goes: RemoteRequest → RemoteState.
const MRemote = "remote"

// RemoteRequest says what is to be done.
type RemoteRequest struct {
	// Do is "" to ask only; add (to URL; Name is that of this computer), rm, or send:
	// now, and for Within at most.
	Do     string        `json:"do,omitempty"`
	URL    string        `json:"url,omitempty"`
	Name   string        `json:"name,omitempty"`
	Within time.Duration `json:"within,omitempty"`
	// Recipients are the age recipients to encrypt for.
	Recipients []string `json:"recipients,omitempty"`
}

// RemoteState says what was sent, and what was not.
type RemoteState struct {
	URL        string    `json:"url,omitempty"` // "": the history stays here
	Machine    string    `json:"machine,omitempty"`
	Recipients []string  `json:"recipients,omitempty"` // none: it is not encrypted
	Segments   uint64    `json:"segments,omitempty"`
	Versions   uint64    `json:"versions,omitempty"`
	Bytes      int64     `json:"bytes,omitempty"`
	Unsent     uint64    `json:"unsent"` // versions, at most
	Last       time.Time `json:"last,omitzero"`
	Note       string    `json:"note,omitempty"` // what to know of the id
	// Error is why sending fails, Since when, and Next when it is tried again.
	Error string    `json:"error,omitempty"`
	Hint  string    `json:"hint,omitempty"`
	Since time.Time `json:"since,omitzero"`
	Next  time.Time `json:"next,omitzero"`
}
