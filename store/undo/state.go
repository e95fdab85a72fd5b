package undo

import (
	"strings"

	"cachebro/store"
	"cachebro/store/leaf/attrs"

	"golang.org/x/sys/unix"
)

// state is the state of a path. The zero value means that the path does not exist.
type state struct {
	mode      uint32 // st_mode; 0: absent
	blob      store.Hash
	target    string
	size      int64
	mtime     int64
	noContent string
	seq       uint64 // the version that recorded the state
	in        store.Inode
	nlink     uint32
	owned     bool // uid and gid are known and belong to this machine
	uid, gid  uint32
	attrs     attrs.Set
}

func stateOf(v store.Version) state {
	if v.Seq == 0 || v.Deleted() {
		return state{seq: v.Seq}
	}
	m := v.Stat.Mode
	if m&unix.S_IFMT == 0 {
		m |= unix.S_IFREG
	}
	return state{
		mode: m, blob: v.Blob, target: v.Target, size: v.Stat.Size, mtime: v.Stat.Mtime, noContent: v.NoContent, seq: v.Seq,
		in: store.InodeOf(v.Stat), nlink: v.Stat.Nlink, owned: v.Stat.Ino != 0 && !v.Foreign, uid: v.Stat.UID, gid: v.Stat.GID, attrs: attrsOf(v),
	}
}

func newState(v *store.Version) *state { st := stateOf(*v); return &st }

func (s state) absent() bool  { return s.mode == 0 }
func (s state) kind() uint32  { return s.mode & unix.S_IFMT }
func (s state) dir() bool     { return s.kind() == unix.S_IFDIR }
func (s state) regular() bool { return s.kind() == unix.S_IFREG }
func (s state) link() bool    { return s.kind() == unix.S_IFLNK }
func (s state) perm() uint32  { return s.mode & 0o7777 }

// equal reports whether two states are equal except for times.
func (s state) equal(o state) bool {
	if s.absent() || o.absent() {
		return s.absent() == o.absent()
	}
	return s.sameContent(o) && s.sameMeta(o)
}

// SameCell reports whether two versions have the same value in a cell of the given kind. For the entry,
// it compares only whether the path exists. It ignores times.
func SameCell(kind uint8, v, w store.Version) bool {
	a, b := stateOf(v), stateOf(w)
	if kind == store.CellEntry || a.absent() || b.absent() {
		return a.absent() == b.absent()
	}
	if kind == store.CellContent {
		return a.sameContent(b)
	}
	return a.sameMeta(b)
}

// sameMeta reports whether mode, owner and attributes are equal. Links have no mode of their own.
func (s state) sameMeta(o state) bool {
	sameMode := s.perm() == o.perm() || s.link() && o.link()
	return sameMode && s.sameOwner(o) && s.attrs.Same(o.attrs)
}

// attrsOf returns the attributes of a version without those that contain user or group IDs of
// another machine.
func attrsOf(v store.Version) attrs.Set {
	set := attrs.Set(v.Stat.Attrs)
	if v.Foreign {
		set = set.Without(func(name string) bool { return !strings.HasPrefix(name, "user.") })
	}
	return set
}

// sameOwner reports whether the owners are equal or one is unknown.
func (s state) sameOwner(o state) bool {
	return !s.owned || !o.owned || s.uid == o.uid && s.gid == o.gid
}

// setID are the mode bits by which a program runs with the rights of its owner or group.
const setID = unix.S_ISUID | unix.S_ISGID

// grants reports whether changing o to s gives a file set-id bits or capabilities that it does not
// have. Only a new file may get them, because a process may still have the present file open for
// writing.
func (s state) grants(o state) bool {
	ids := s.mode&setID != 0 && (s.mode&setID&^o.mode != 0 || !s.sameOwner(o))
	capabilities := s.attrs.Has(attrs.Capability) && !s.attrs.Same(o.attrs)
	return s.regular() && (ids || capabilities)
}

// needsNewFile reports whether s has set-id bits or capabilities that need a new file. A write
// would remove them, or the present file must not get them.
func (s state) needsNewFile(have state) bool {
	lends := s.regular() && (s.mode&setID != 0 || s.attrs.Has(attrs.Capability))
	return lends && (!s.sameContent(have) || s.grants(have))
}

func (s state) sameContent(o state) bool {
	if s.kind() != o.kind() {
		return false
	}
	switch {
	case s.regular():
		return s.blob == o.blob && (s.blob != store.Hash{} || s.size == o.size && s.mtime == o.mtime)
	case s.link():
		return s.target == o.target
	}
	return true
}
