package undo

import (
	"strings"

	"cachebro/store"
	"cachebro/store/leaf/attrs"

	"golang.org/x/sys/unix"
)

// state is what a path is: the zero value is absent.
type state struct {
	mode      uint32 // st_mode; 0: absent
	blob      store.Hash
	target    string
	size      int64
	mtime     int64
	noContent string
	seq       uint64 // the version that says so
	in        store.Inode
	nlink     uint32
	owned     bool // uid and gid are known, and mean somebody here
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

// equal: the same file for everybody who looks (times apart).
func (s state) equal(o state) bool {
	if s.absent() || o.absent() {
		return s.absent() == o.absent()
	}
	return s.sameContent(o) && (s.link() || s.perm() == o.perm()) && s.sameOwner(o) && s.attrs.Same(o.attrs)
}

// attrsOf leaves out what names people who are others here.
func attrsOf(v store.Version) attrs.Set {
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

// needsNewFile reports whether the rights of an owner come back that a file loses when it
// is written to, or that it may not be given while it is there.
func (s state) needsNewFile(have state) bool {
	lends := s.regular() && (s.mode&setID != 0 || s.attrs.Has(attrs.Capability))
	return lends && (!s.sameContent(have) || s.lends(have))
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
