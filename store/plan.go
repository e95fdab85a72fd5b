package store

import "cachebro/store/leaf/attrs"

// The kinds of plans.
const (
	PlanRevert  = "revert"  // return one file to an earlier version
	PlanUndo    = "undo"    // undo what an actor did
	PlanRedo    = "redo"    // apply again what another plan undid
	PlanRestore = "restore" // return paths, or the whole tree, to an earlier state
)

// The kinds of steps.
const (
	DoWrite   = "write"
	DoDelete  = "delete"
	DoMkdir   = "mkdir"
	DoRmdir   = "rmdir"
	DoRename  = "rename"
	DoSymlink = "symlink"
	DoChmod   = "chmod"
	DoLink    = "link" // make Path a name of the file To, unless it already is
	// DoExchange swaps Path and the directory To.
	DoExchange = "exchange"
)

// ExpectAbsent as the value of Step.Expect means that nothing may exist at the path.
const ExpectAbsent = "absent"

// Plan is a list of steps that undo or restore something. Making a plan writes nothing.
// Journal.Begin writes it into the journal. Then a client carries it out through the mount, and its
// writes become versions with this plan's ID.
type Plan struct {
	ID        string     `cbor:"1,keyasint,omitempty"`
	Kind      string     `cbor:"2,keyasint,omitempty"`
	Title     string     `cbor:"3,keyasint,omitempty"` // tells the user what is undone
	Of        string     `cbor:"4,keyasint,omitempty"` // for a redo, the ID of the plan that it reverses
	Steps     []Step     `cbor:"5,keyasint,omitempty"`
	Conflicts []Conflict `cbor:"6,keyasint,omitempty"`
	Lost      []Conflict `cbor:"7,keyasint,omitempty"` // paths that cannot be restored: too large, pruned or never captured
	Returns   []Return   `cbor:"8,keyasint,omitempty"`
	Seq       uint64     `cbor:"9,keyasint,omitempty"`  // newest version when the plan was made
	Begun     int64      `cbor:"10,keyasint,omitempty"` // ns since the epoch
	Finished  int64      `cbor:"11,keyasint,omitempty"` // 0: open
	Failed    []Conflict `cbor:"12,keyasint,omitempty"`
	// Tree is the directory that the plan was begun for, if known. A plan in a copied state
	// directory belongs to another tree, so it is not resumed.
	Tree Tree `cbor:"13,keyasint,omitzero"`
	// Cells lists what the plan does to entries, contents and metadata.
	Cells []Cell `cbor:"14,keyasint,omitempty"`
	// Since is the oldest version that was read to make the plan.
	Since uint64 `cbor:"15,keyasint,omitempty"`
	// Undoes is the oldest version of the undone action, if the plan undoes the last action; 0 for
	// other plans.
	Undoes uint64 `cbor:"16,keyasint,omitempty"`
	// Done holds the numbers of the steps that were carried out.
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
	Expect  string `cbor:"10,keyasint,omitempty"` // hex hash that the present content or link target must have, or ExpectAbsent; "": any
	ExpMode uint32 `cbor:"11,keyasint,omitempty"` // st_mode that the path must have; 0: any
	Added   int    `cbor:"12,keyasint,omitempty"` // lines
	Removed int    `cbor:"13,keyasint,omitempty"`
	// Apart means that the path gets a new file, even if its present file has other names.
	Apart bool `cbor:"14,keyasint,omitempty"`
	// Ino is the inode number of the renamed or exchanged directory Path. A resumed plan uses it to
	// find out whether the step was done.
	Ino uint64 `cbor:"20,keyasint,omitempty"`
	// Below is the number of known files in a renamed or exchanged directory. They move with it.
	Below int `cbor:"21,keyasint,omitempty"`
	// Owned means that the file gets the owner in UID and GID. Otherwise it gets the owner of the
	// file it replaces, and no mode bits that depend on an owner.
	Owned bool   `cbor:"15,keyasint,omitempty"`
	UID   uint32 `cbor:"16,keyasint,omitempty"`
	GID   uint32 `cbor:"17,keyasint,omitempty"`
	// Attrs holds the extended attributes that the file gets. "" means those of the file that it
	// replaces.
	Attrs attrs.Set `cbor:"18,keyasint,omitempty"`
}

// Return records the version whose state a plan restores in one cell of a path. Back is the number of
// that version, or 0 if the path did not exist. The log determines from it what a plan undid.
type Return struct {
	Path Path   `cbor:"1,keyasint"`
	Kind uint8  `cbor:"8,keyasint,omitempty"` // kind of the cell; 0 in plans of older programs: all cells
	Was  uint64 `cbor:"2,keyasint,omitempty"` // newest version of the cell when the plan was made
	Back uint64 `cbor:"3,keyasint,omitempty"`
	// Made means that the state is a merge and equals no version.
	Made bool `cbor:"4,keyasint,omitempty"`
	// For a merged state, Took is the newest version that was undone in it. If only some edits were
	// undone, Edits holds their numbers. Part is true if those edits have no numbers.
	Took  uint64 `cbor:"5,keyasint,omitempty"`
	Edits []int  `cbor:"6,keyasint,omitempty"`
	Part  bool   `cbor:"7,keyasint,omitempty"`
}

// The kinds of cells.
const (
	CellEntry   = 1 // what a name in a directory refers to
	CellContent = 2 // the content of a file
	CellMeta    = 3 // the mode, owner and attributes of a file or directory
)

// Cell records which version's value a plan gives to one cell. Because it refers to versions and
// not to a path, it still identifies the cell after its directory or file has been renamed.
type Cell struct {
	_    struct{} `cbor:",toarray"`
	Kind uint8
	Was  uint64 // the newest version of the cell when the plan was made
	Back uint64 // the version whose value is restored; 0: the state before the first version
	From uint64 // the oldest version that is undone in the cell; 0: see Back
	Made bool   // the value is merged and equals no version, or the entry gets a file anew: Back is a version of it
	Took uint64 // if Made, the newest version that is undone in the cell; 0: none
	Gone bool   // the file or directory no longer exists afterwards
}

// Conflict is a path that a plan leaves alone, and the reason.
type Conflict struct {
	Path  Path   `cbor:"1,keyasint"`
	Why   string `cbor:"2,keyasint"`
	Actor Actor  `cbor:"3,keyasint,omitempty"`
	Time  int64  `cbor:"4,keyasint,omitempty"`
}
