package wire

// MNames: NamesQuery → NamesAnswer: what a person who types may mean.
const MNames = "names"

// NamesQuery asks for names of a kind that begin with Prefix: session, prompt,
// tool-call, agent (Session narrows the last three), or path, which lists what lies
// or lay directly below Dir.
type NamesQuery struct {
	Kind    string `json:"kind"`
	Session string `json:"session,omitempty"`
	Dir     []byte `json:"dir,omitempty"`
	Prefix  []byte `json:"prefix,omitempty"`
}

// NamesAnswer has at most 200 names, the newest first, paths in their order.
type NamesAnswer struct {
	Names []Name `json:"names"`
}

// Name is one of them.
type Name struct {
	Name []byte `json:"name"` // of a path: relative to the root
	Note string `json:"note,omitempty"`
	Dir  bool   `json:"dir,omitempty"`
	Gone bool   `json:"gone,omitempty"` // of a path: only history has it
}
