package store

import "cachebro/store/leaf/attrs"

// The kinds of plans.
const (
	PlanRevert  = "revert"  // one file to an earlier version
	PlanUndo    = "undo"    // undo what an actor did
	PlanRedo    = "redo"    // apply again what another plan undid
	PlanRestore = "restore" // paths, or the whole tree, to an earlier state
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
	DoLink    = "link" // make Path a name of the file To, if it is not one yet
	// DoExchange swaps Path and To, which is a directory.
	DoExchange = "exchange"
)

// ExpectAbsent as the value of Step.Expect means that nothing may exist at the path.
const ExpectAbsent = "absent"

// Plan is a list of steps that undo or restore something. Making a plan writes nothing.
// Journal.Begin puts it into the journal, and a client carries it out through the mount,
// where its writes become versions with this plan's ID.
type Plan struct {
	ID        string     `cbor:"1,keyasint,omitempty"`
	Kind      string     `cbor:"2,keyasint,omitempty"`
	Title     string     `cbor:"3,keyasint,omitempty"` // describes for the user what is undone
	Of        string     `cbor:"4,keyasint,omitempty"` // for a redo, the ID of the plan that it reverses
	Steps     []Step     `cbor:"5,keyasint,omitempty"`
	Conflicts []Conflict `cbor:"6,keyasint,omitempty"`
	Lost      []Conflict `cbor:"7,keyasint,omitempty"` // cannot be restored, because too large, pruned or never captured
	Returns   []Return   `cbor:"8,keyasint,omitempty"`
	Seq       uint64     `cbor:"9,keyasint,omitempty"`  // newest version when it was made
	Begun     int64      `cbor:"10,keyasint,omitempty"` // ns since the epoch
	Finished  int64      `cbor:"11,keyasint,omitempty"` // 0: open
	Failed    []Conflict `cbor:"12,keyasint,omitempty"`
	// Tree is the directory that the plan was begun for, if known. A plan in a copied state
	// directory belongs to another tree and is not resumed.
	Tree Tree `cbor:"13,keyasint,omitzero"`
	// Cells are what it makes of entries, contents and metadata one by one.
	Cells []Cell `cbor:"14,keyasint,omitempty"`
	// Since is the oldest version that was looked at to make it.
	Since uint64 `cbor:"15,keyasint,omitempty"`
	// Done holds the numbers of the steps that a journalled plan has carried out.
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
	Expect  string `cbor:"10,keyasint,omitempty"` // hex hash of the content or link target that must be there, or ExpectAbsent; "" allows anything
	ExpMode uint32 `cbor:"11,keyasint,omitempty"` // st_mode that it must have; 0: any
	Added   int    `cbor:"12,keyasint,omitempty"` // lines
	Removed int    `cbor:"13,keyasint,omitempty"`
	// Apart means that the path gets a new file of its own, even if its present file has
	// other names.
	Apart bool `cbor:"14,keyasint,omitempty"`
	// Ino is the inode number of the directory Path that is renamed or exchanged. A resumed
	// plan uses it to find out whether the step was done.
	Ino uint64 `cbor:"20,keyasint,omitempty"`
	// Owned means that the file gets the owner in UID and GID. Otherwise it gets the owner of
	// the file it replaces, without the mode bits that depend on an owner.
	Owned bool   `cbor:"15,keyasint,omitempty"`
	UID   uint32 `cbor:"16,keyasint,omitempty"`
	GID   uint32 `cbor:"17,keyasint,omitempty"`
	// Attrs holds the extended attributes that the file gets. If it is "", the file gets
	// those of the file that it replaces.
	Attrs attrs.Set `cbor:"18,keyasint,omitempty"`
}

// Return records which version's state a plan restores at a path, so that a later undo knows
// whose work the path then holds. Back is the number of that version, or 0 if the plan
// restores that the path did not exist.
type Return struct {
	Path Path   `cbor:"1,keyasint"`
	Was  uint64 `cbor:"2,keyasint,omitempty"` // newest version when the plan was made
	Back uint64 `cbor:"3,keyasint,omitempty"`
	// Made means that the state is a merge and not the state of any version.
	Made bool `cbor:"4,keyasint,omitempty"`
	// For a merged state, Took is the newest of the versions that were undone in it. If only
	// some edits were undone, Edits holds their numbers, or Part is true if the edits have no
	// numbers.
	Took  uint64 `cbor:"5,keyasint,omitempty"`
	Edits []int  `cbor:"6,keyasint,omitempty"`
	Part  bool   `cbor:"7,keyasint,omitempty"`
}

// The kinds of cells.
const (
	CellEntry   = 1 // what a name in a directory stands for
	CellContent = 2 // the content of a file
	CellMeta    = 3 // the mode, owner and attributes of a file or directory
)

// Cell says to which version's value a plan takes one cell. It finds the cell again
// wherever its directory, or the file, has gone since.
type Cell struct {
	_    struct{} `cbor:",toarray"`
	Kind uint8
	Was  uint64 // the newest version of the cell when the plan was made
	Back uint64 // 0: before anything was known of it
	From uint64 // the oldest version that is taken out of the cell; 0: see Back
	Made bool   // the value is that of no version
	Took uint64 // of a value that was made, the newest of the versions that are taken out of it
	Gone bool   // what has the content or metadata is nowhere afterwards, so there is no version of it
}

// Conflict is a path that a plan does not change, and why.
type Conflict struct {
	Path  Path   `cbor:"1,keyasint"`
	Why   string `cbor:"2,keyasint"`
	Actor Actor  `cbor:"3,keyasint,omitempty"`
	Time  int64  `cbor:"4,keyasint,omitempty"`
}
