package wire

// MFork takes a ForkQuery and the descriptor (SCM_RIGHTS) of an empty directory, and returns a
// ForkAnswer. It fills the directory with the tree at a version of the log.
const MFork = "fork"

// ForkQuery selects a tree.
type ForkQuery struct {
	Seq     uint64 `json:"seq,omitempty"`     // version of the log; 0: now
	Ignored bool   `json:"ignored,omitempty"` // include the present state of files that git ignores
}

// ForkAnswer describes the filled directory.
type ForkAnswer struct {
	Seq    uint64     `json:"seq"`              // version of the log, also if the query was for now
	Files  int        `json:"files"`            // number of regular files and links
	Bytes  int64      `json:"bytes"`            // total size of Files
	Shared int64      `json:"shared,omitempty"` // bytes whose disk blocks the fork shares with the project
	Lost   []ForkLost `json:"lost,omitempty"`   // at most ForkLostMost
	More   int        `json:"more,omitempty"`   // number of lost files that are not listed
	Absent [][]byte   `json:"absent,omitempty"` // paths that the fork does not have although the log may, in no order: what is lost, other worktrees, ignored files
}

// ForkLost is a path that is missing in the fork, and the reason.
type ForkLost struct {
	Path []byte `json:"path"`
	Why  string `json:"why"`
}

// ForkLostMost bounds ForkAnswer.Lost.
const ForkLostMost = 100
