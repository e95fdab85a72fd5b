package wire

// MNames takes a NamesQuery and returns a NamesAnswer with completions for the command line.
const MNames = "names"

// NamesQuery asks for names that begin with Prefix. Kind is session, prompt, tool-call, agent or
// path. Session restricts prompt, tool-call and agent. For path, the answer lists present and
// former entries of Dir.
type NamesQuery struct {
	Kind    string `json:"kind"`
	Session string `json:"session,omitempty"`
	Dir     []byte `json:"dir,omitempty"`
	Prefix  []byte `json:"prefix,omitempty"`
}

// NamesAnswer holds at most 200 names, newest first. Paths are sorted by name.
type NamesAnswer struct {
	Names []Name `json:"names"`
}

// Name is one completion.
type Name struct {
	Name []byte `json:"name"` // paths are relative to the root
	Note string `json:"note,omitempty"`
	Dir  bool   `json:"dir,omitempty"`
	Gone bool   `json:"gone,omitempty"` // the path does not exist
}
