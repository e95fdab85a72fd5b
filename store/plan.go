package store

import (
	"strings"

	"cachebro/store/attrs"

	"golang.org/x/sys/unix"
)

// The kinds of plans.
const (
	PlanRevert  = "revert"  // one file to an earlier version
	PlanUndo    = "undo"    // what some actor did, taken back
	PlanRedo    = "redo"    // what a plan took back, brought back
	PlanRestore = "restore" // paths, or the whole tree, as they were at a moment
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
	DoLink    = "link" // Path becomes a name of the file To, if it is not one
	// DoExchange: Path and To, which is a directory, change places.
	DoExchange = "exchange"
)

// ExpectAbsent in Step.Expect: nothing may be there.
const ExpectAbsent = "absent"

// Plan is a list of steps that take something back. Making one writes nothing;
// BeginPlan puts it in the journal, and a client carries it out through the
// mountpoint, where its writes become versions with this plan's ID.
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
	// Tree is the directory that it was begun for, as far as that can be told: a plan
	// in a copied state directory is for another one, and is not gone on with.
	Tree Tree `cbor:"13,keyasint,omitzero"`
	// Done holds the numbers of the steps carried out (of a journalled plan).
	Done []int `cbor:"-"`

	secure Secure          // nil: it is only to be shown, and what can be secured will be
	unsafe map[Path]string // what could not be secured, and why
	merged map[Hash][]byte // contents that BeginPlan has yet to store
	kept   map[Hash]place  // whether and where the store has them, as far as it was asked
	homes  map[Path]Path   // what goes by a rename, and where
	read   map[Hash][]byte // contents that were read to make it, see Read
}

// Tree is the directory that a plan is for.
type Tree struct {
	Ino   uint64 `cbor:"1,keyasint,omitempty"`
	Birth int64  `cbor:"2,keyasint,omitempty"`
}

// Step is one change of one path. Steps are carried out in order of N; a step
// whose result is there already counts as done, so that a plan may be resumed.
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
	// Apart: the path gets a file of its own, whatever other names it has now.
	Apart bool `cbor:"14,keyasint,omitempty"`
	// Ino is the inode number of the directory Path that is renamed or exchanged:
	// by it who resumes a plan knows whether that was done.
	Ino uint64 `cbor:"20,keyasint,omitempty"`
	// Owned: UID and GID are who has the file afterwards. Without that it is whose
	// place it takes, and nothing of the mode that depends on an owner is given.
	Owned bool   `cbor:"15,keyasint,omitempty"`
	UID   uint32 `cbor:"16,keyasint,omitempty"`
	GID   uint32 `cbor:"17,keyasint,omitempty"`
	// Attrs are the extended attributes that it has afterwards; "": those of the file
	// whose place it takes.
	Attrs attrs.Set `cbor:"18,keyasint,omitempty"`
}

// Return says to which version's state a plan takes a path, so that a later
// undo knows whose work it finds there. Back 0: the path did not exist.
type Return struct {
	Path Path   `cbor:"1,keyasint"`
	Was  uint64 `cbor:"2,keyasint,omitempty"` // newest version when the plan was made
	Back uint64 `cbor:"3,keyasint,omitempty"`
	// Made: the state is that of no version (a merge).
	Made bool `cbor:"4,keyasint,omitempty"`
}

// Conflict is a path that a plan leaves alone.
type Conflict struct {
	Path  Path   `cbor:"1,keyasint"`
	Why   string `cbor:"2,keyasint"`
	Actor Actor  `cbor:"3,keyasint,omitempty"`
	Time  int64  `cbor:"4,keyasint,omitempty"`

	size int64 // of what is lost
}

// file is what a path is: the zero value is absent.
type state struct {
	mode      uint32 // st_mode; 0: absent
	blob      Hash
	target    string
	size      int64
	mtime     int64
	noContent string
	seq       uint64 // the version that says so
	in        inode
	nlink     uint32
	owned     bool // uid and gid are known, and mean somebody here
	uid, gid  uint32
	attrs     attrs.Set
}

func stateOf(v Version) state {
	if v.Seq == 0 || v.Deleted() {
		return state{seq: v.Seq}
	}
	m := v.Stat.Mode
	if m&unix.S_IFMT == 0 {
		m |= unix.S_IFREG
	}
	return state{
		mode: m, blob: v.Blob, target: v.Target, size: v.Stat.Size, mtime: v.Stat.Mtime, noContent: v.NoContent, seq: v.Seq,
		in: inodeOf(v.Stat), nlink: v.Stat.Nlink, owned: v.Stat.Ino != 0 && !v.Foreign, uid: v.Stat.UID, gid: v.Stat.GID, attrs: attrsOf(v),
	}
}

func (s state) absent() bool  { return s.mode == 0 }
func (s state) kind() uint32  { return s.mode & unix.S_IFMT }
func (s state) dir() bool     { return s.kind() == unix.S_IFDIR }
func (s state) regular() bool { return s.kind() == unix.S_IFREG }
func (s state) link() bool    { return s.kind() == unix.S_IFLNK }
func (s state) perm() uint32  { return s.mode & 0o7777 }

// equal: the same file for everybody who looks (times apart).
func (s state) equal(o state) bool {
	if s.absent() || o.absent() {
		return s.absent() == o.absent()
	}
	return s.sameContent(o) && (s.link() || s.perm() == o.perm()) && s.sameOwner(o) && s.attrs.Same(o.attrs)
}

// attrsOf leaves out what names people who are others here.
func attrsOf(v Version) attrs.Set {
	set := attrs.Set(v.Stat.Attrs)
	if v.Foreign {
		set = set.Without(func(name string) bool { return !strings.HasPrefix(name, "user.") })
	}
	return set
}

// sameOwner is true in doubt.
func (s state) sameOwner(o state) bool {
	return !s.owned || !o.owned || s.uid == o.uid && s.gid == o.gid
}

// setID are the bits by which a program runs with the rights of its owner.
const setID = unix.S_ISUID | unix.S_ISGID

// lends: to get from o to s gives a file rights of its owner that it has not yet.
// Only a new file is given those: whoever once had the present one open for writing
// could still change it.
func (s state) lends(o state) bool {
	return s.regular() && (s.mode&setID != 0 && (s.mode&setID&^o.mode != 0 || !s.sameOwner(o)) || s.attrs.Has(attrs.Capability) && !s.attrs.Same(o.attrs))
}

func (s state) sameContent(o state) bool {
	if s.kind() != o.kind() {
		return false
	}
	switch {
	case s.regular():
		return s.blob == o.blob && (s.blob != Hash{} || s.size == o.size && s.mtime == o.mtime)
	case s.link():
		return s.target == o.target
	}
	return true
}

// matchContent gives both states of an unchanged file the content that the history has
// in one of them: a file is read when it comes into view, or goes.
func matchContent(a, b *state) {
	if a.regular() && b.regular() && a.in.ino != 0 && a.in == b.in && a.size == b.size && a.mtime == b.mtime {
		if a.blob == (Hash{}) {
			a.blob = b.blob
		} else if b.blob == (Hash{}) {
			b.blob = a.blob
		}
	}
}

// goal is what one path is and what it should be.
type goal struct {
	path       Path
	have, want state
	made       bool   // want is a merge
	moved      bool   // something came to the path by a rename
	other      bool   // what is there is not what was there, be it equal
	unseen     bool   // nothing is known of what is wanted before it was found
	since      uint64 // the first version of all that is taken back
}
