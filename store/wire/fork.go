package wire

// MFork: ForkQuery + the descriptor (SCM_RIGHTS) of an empty directory → ForkAnswer. It fills
// the directory with the tree as it was at a moment.
const MFork = "fork"

// ForkQuery selects a tree.
type ForkQuery struct {
	Seq     uint64 `json:"seq,omitempty"`     // the moment; 0: now
	Ignored bool   `json:"ignored,omitempty"` // include files that git ignores, as they are in the project now
}

// ForkAnswer describes the filled directory.
type ForkAnswer struct {
	Seq    uint64     `json:"seq"`              // the moment, even if "now" was asked for
	Files  int        `json:"files"`            // number of regular files and links
	Bytes  int64      `json:"bytes"`            // their size
	Shared int64      `json:"shared,omitempty"` // bytes whose disk blocks the fork shares with the project
	Lost   []ForkLost `json:"lost,omitempty"`   // at most ForkLostMost
	More   int        `json:"more,omitempty"`   // number of lost files that are not listed
}

// ForkLost is a path of the tree that the fork lacks, and why.
type ForkLost struct {
	Path []byte `json:"path"`
	Why  string `json:"why"`
}

// ForkLostMost bounds ForkAnswer.Lost.
const ForkLostMost = 100
