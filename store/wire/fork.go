package wire

// MFork fills an empty directory with the tree of a moment: ForkQuery + the directory's
// descriptor (SCM_RIGHTS) → ForkAnswer.
const MFork = "fork"

// ForkQuery says which tree.
type ForkQuery struct {
	Seq     uint64 `json:"seq,omitempty"`     // the moment; 0: now
	Ignored bool   `json:"ignored,omitempty"` // also what git ignores and lies in the project now
}

// ForkAnswer is what was made.
type ForkAnswer struct {
	Seq    uint64     `json:"seq"`              // the moment, also where now was asked for
	Files  int        `json:"files"`            // regular files and links
	Bytes  int64      `json:"bytes"`            // of them
	Shared int64      `json:"shared,omitempty"` // bytes whose disk blocks the fork shares with the project
	Lost   []ForkLost `json:"lost,omitempty"`   // at most ForkLostMost
	More   int        `json:"more,omitempty"`   // lost and not listed
}

// ForkLost is what is not in the fork although it was in the tree.
type ForkLost struct {
	Path []byte `json:"path"`
	Why  string `json:"why"`
}

// ForkLostMost bounds ForkAnswer.Lost.
const ForkLostMost = 100
