package wire

// MNames takes a NamesQuery and returns a NamesAnswer with completions for the command line.
const MNames = "names"

// NamesQuery asks for names of a kind that begin with Prefix. Kind is session, prompt,
// tool-call or agent (Session narrows the last three), or path, which lists present and
// former entries of Dir.
type NamesQuery struct {
	Kind    string `json:"kind"`
	Session string `json:"session,omitempty"`
	Dir     []byte `json:"dir,omitempty"`
	Prefix  []byte `json:"prefix,omitempty"`
}

// NamesAnswer has at most 200 names, newest first; paths are sorted by name.
type NamesAnswer struct {
	Names []Name `json:"names"`
}

// Name is one completion.
type Name struct {
	Name []byte `json:"name"` // a path is relative to the root
	Note string `json:"note,omitempty"`
	Dir  bool   `json:"dir,omitempty"`
	Gone bool   `json:"gone,omitempty"` // for a path: it no longer exists
}
