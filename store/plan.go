package store

import "cachebro/store/leaf/attrs"

// The kinds of plans.
const (
	PlanRevert  = "revert"  // one file to an earlier version
	PlanUndo    = "undo"    // take back what some actor did
	PlanRedo    = "redo"    // bring back what a plan took back
	PlanRestore = "restore" // paths, or the whole tree, as they were at some moment
)

// What a step does.
const (
	DoWrite   = "write"
	DoDelete  = "delete"
	DoMkdir   = "mkdir"
	DoRmdir   = "rmdir"
	DoRename  = "rename"
	DoSymlink = "symlink"
	DoChmod   = "chmod"
	DoLink    = "link" // make Path a name of the file To, if it is not one yet
	// DoExchange swaps Path and To, which is a directory.
	DoExchange = "exchange"
)

// ExpectAbsent in Step.Expect: nothing may exist at the path.
const ExpectAbsent = "absent"

// Plan is a list of steps that take something back. Making a plan writes nothing.
// Journal.Begin puts it into the journal, and a client carries it out through the mount,
// where its writes become versions with this plan's ID.
type Plan struct {
	ID        string     `cbor:"1,keyasint,omitempty"`
	Kind      string     `cbor:"2,keyasint,omitempty"`
	Title     string     `cbor:"3,keyasint,omitempty"` // what is taken back, for people
	Of        string     `cbor:"4,keyasint,omitempty"` // redo: the plan that is brought back
	Steps     []Step     `cbor:"5,keyasint,omitempty"`
	Conflicts []Conflict `cbor:"6,keyasint,omitempty"`
	Lost      []Conflict `cbor:"7,keyasint,omitempty"` // cannot be brought back: too large, pruned, never captured
	Returns   []Return   `cbor:"8,keyasint,omitempty"`
	Seq       uint64     `cbor:"9,keyasint,omitempty"`  // newest version when it was made
	Begun     int64      `cbor:"10,keyasint,omitempty"` // ns since the epoch
	Finished  int64      `cbor:"11,keyasint,omitempty"` // 0: open
	Failed    []Conflict `cbor:"12,keyasint,omitempty"`
	// Tree is the directory that the plan was begun for, if known. A plan in a copied state
	// directory belongs to another tree and is not resumed.
	Tree Tree `cbor:"13,keyasint,omitzero"`
	// Done holds the numbers of the steps carried out (of a journalled plan).
	Done []int `cbor:"-"`
}

// Tree is the directory that a plan is for.
type Tree struct {
	Ino   uint64 `cbor:"1,keyasint,omitempty"`
	Birth int64  `cbor:"2,keyasint,omitempty"`
}

// Step is one change of one path. Steps are carried out in order of N. A step whose result
// already exists counts as done, so that a plan can be resumed.
type Step struct {
	N       int    `cbor:"1,keyasint"`
	Do      string `cbor:"2,keyasint"`
	Path    Path   `cbor:"3,keyasint"`
	To      Path   `cbor:"4,keyasint,omitempty"` // rename, link, exchange
	Target  string `cbor:"5,keyasint,omitempty"` // symlink
	Mode    uint32 `cbor:"6,keyasint,omitempty"` // st_mode, type bits included
	Mtime   int64  `cbor:"7,keyasint,omitempty"` // ns since the epoch, 0: now
	Size    int64  `cbor:"8,keyasint,omitempty"`
	Blob    Hash   `cbor:"9,keyasint"`            // content to write
	Expect  string `cbor:"10,keyasint,omitempty"` // hex hash of the content or link target that must be there; ExpectAbsent; "": anything
	ExpMode uint32 `cbor:"11,keyasint,omitempty"` // st_mode that it must have; 0: any
	Added   int    `cbor:"12,keyasint,omitempty"` // lines
	Removed int    `cbor:"13,keyasint,omitempty"`
	// Apart: the path gets a file of its own, even if its present file has other names.
	Apart bool `cbor:"14,keyasint,omitempty"`
	// Ino is the inode number of the directory Path that is renamed or exchanged. Whoever
	// resumes the plan tells by it whether the step was done.
	Ino uint64 `cbor:"20,keyasint,omitempty"`
	// Owned: UID and GID are the owner that the file gets. Otherwise it keeps the owner of
	// the file it replaces, and mode bits that depend on an owner are left out.
	Owned bool   `cbor:"15,keyasint,omitempty"`
	UID   uint32 `cbor:"16,keyasint,omitempty"`
	GID   uint32 `cbor:"17,keyasint,omitempty"`
	// Attrs are the extended attributes that the file gets; "": those of the file that it
	// replaces.
	Attrs attrs.Set `cbor:"18,keyasint,omitempty"`
}

// Return records to which version's state a plan takes a path, so that a later undo knows
// whose work the path then holds. Back 0: the path did not exist.
type Return struct {
	Path Path   `cbor:"1,keyasint"`
	Was  uint64 `cbor:"2,keyasint,omitempty"` // newest version when the plan was made
	Back uint64 `cbor:"3,keyasint,omitempty"`
	// Made: the state is a merge, not that of any version.
	Made bool `cbor:"4,keyasint,omitempty"`
	// Took is, for a merged state, the newest of the versions taken out of it. Edits are
	// the numbers of the edits that were taken out, if only some were; Part says the same
	// where edits have no numbers.
	Took  uint64 `cbor:"5,keyasint,omitempty"`
	Edits []int  `cbor:"6,keyasint,omitempty"`
	Part  bool   `cbor:"7,keyasint,omitempty"`
}

// Conflict is a path that a plan does not change, and why.
type Conflict struct {
	Path  Path   `cbor:"1,keyasint"`
	Why   string `cbor:"2,keyasint"`
	Actor Actor  `cbor:"3,keyasint,omitempty"`
	Time  int64  `cbor:"4,keyasint,omitempty"`
}
