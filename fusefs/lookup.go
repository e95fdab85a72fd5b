//go:build linux || darwin

package fusefs

import (
	"cachebro/fusefs/sys"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// openParent opens the directory node so that name can be looked up in it. If the mount hides that
// name, it returns the status hidden. The caller releases d.
func (o *namespace) openParent(node uint64, name string, hidden fuse.Status) (parent *inode, d *dirfd, st fuse.Status) {
	parent, st = o.node(node)
	if !st.Ok() {
		return nil, nil, st
	}
	if o.hidden(parent, name) {
		return nil, nil, hidden
	}
	d, err := o.dir(parent)
	if err == nil && o.hidesSpelling(parent, d, name) {
		d.release()
		return nil, nil, hidden
	}
	return parent, d, status(err)
}

// Lookup finds a name in a directory. If the name does not exist, the reply has node id 0, so that
// the kernel caches the absence.
func (o *overlay) Lookup(_ <-chan struct{}, in *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	parent, d, st := o.openParent(in.NodeId, name, fuse.ENOENT)
	if !st.Ok() {
		return st
	}
	var sx sys.Stat
	made := o.creations.start()
	defer d.release()
	err := sys.StatAt(d.fd, name, &sx)
	if err == unix.ENOENT && parent.folds(d) {
		return fuse.ENOENT
	}
	if err == unix.ENOENT {
		out.EntryValid, out.EntryValidNsec = o.ttl()
		return fuse.OK
	}
	if err != nil {
		return status(err)
	}
	is := o.spelled(parent, d, name, &sx)
	if is != name && o.hidden(parent, is) {
		return fuse.ENOENT
	}
	o.lookedUp(in, parent, d.fd, is, &sx, made, out)
	if is != name {
		out.EntryValid, out.EntryValidNsec = 0, 0
	}
	return fuse.OK
}

// lookedUp fills in the reply for a name found in a directory, and counts a reference to its inode.
// made is the state of o.creations before sx was read.
func (o *overlay) lookedUp(in *fuse.InHeader, parent *inode, dir int, name string, sx *sys.Stat, made moveMark, out *fuse.EntryOut) {
	id := o.rest(parent, name, sx)
	if id == 0 {
		n, isNew := o.ref(parent, name, sx)
		if isNew {
			o.noteOutside(n, sx, made)
		} else {
			o.restat(n, in, dir, name, sx)
		}
		id = n.id
	}
	o.fillEntry(id, sx, out)
}

// restat reads sx again, just before it is sent, for an inode that the kernel already knows. sx was
// first read before the inode was found. If the inode was changed in between, voidOlderReplies did
// not void this reply, because the request was not yet recorded in the inode.
func (o *namespace) restat(n *inode, in *fuse.InHeader, dir int, name string, sx *sys.Stat) {
	if n.isReg() && sx.Nlink == 1 {
		return // the kernel itself makes every change of such a file
	}
	n.noteAttrRead(in.Pid)
	var again sys.Stat
	if sys.StatAt(dir, name, &again) == nil && keyOf(&again) == n.key {
		*sx = again
	}
}

// entry counts a reference to the inode that sx describes, which was found as name in parent, and
// fills in the reply. It also returns the name as the directory spells it.
func (o *overlay) entry(parent *inode, d *dirfd, name string, sx *sys.Stat, out *fuse.EntryOut) (n *inode, is string) {
	is = o.spelled(parent, d, name, sx)
	n, _ = o.ref(parent, is, sx)
	o.fillEntry(n.id, sx, out)
	if is != name {
		out.EntryValid, out.EntryValidNsec = 0, 0
	}
	return n, is
}

// ref is like entry, but fills in no reply. isNew reports whether the inode is new to the kernel.
func (o *overlay) ref(parent *inode, name string, sx *sys.Stat) (n *inode, isNew bool) {
	k := keyOf(sx)
	made := false
	n, isNew = o.table.ref(k, func(id uint64) *inode {
		made = true
		n := &inode{fs: o, id: id, key: k, kind: sx.Mode & unix.S_IFMT, link: link{parent: parent, name: name}}
		n.kernelHas = kernelState{known: true, mtime: sx.Mtime, ctime: sx.Ctime, size: sx.Size}
		return n
	})
	if !made {
		n.respell(parent, name)
		n.addLink(parent, name)
		if n.isReg() {
			o.maybeOutside(n, sx)
		}
	}
	return n, isNew
}

// maybeOutside handles attributes that were read without calling peek first. If they differ from
// the known attributes, maybeOutside calls peek and reads them again.
func (o *contents) maybeOutside(n *inode, sx *sys.Stat) {
	n.mu.Lock()
	s := n.kernelHas
	n.mu.Unlock()
	if s.known && s.mtime == sx.Mtime && s.ctime == sx.Ctime && s.size == sx.Size {
		return
	}
	gen := n.peek()
	var again sys.Stat
	if o.statInode(n, &again) == nil {
		*sx = again
		o.observed(n, sx, gen)
	}
}

// Forget drops references. Its only I/O is closing a descriptor.
func (o *contents) Forget(id, count uint64) {
	if id == rootID {
		return
	}
	if n, last := o.table.forget(id, count); last {
		if n.holdsNames.Load() {
			o.tree.RLock()
			n.link.parent.holdsNames.Store(true) // the kernel may forget the parent too
			o.tree.RUnlock()
		} else if o.ledger != nil {
			n.forgetLinks()
		}
		o.outsideWrites.noteForgotten(n)
		o.dirs.drop(n)
		o.forgotten(n)
		n.mark.And(MarkTimes) // a copy of the content that is in progress still needs MarkTimes
	}
}

// attrs reads the attributes of an inode from the source. If has is set, it uses the handle fh.
func (o *contents) attrs(in *fuse.InHeader, fh uint64, has bool, sx *sys.Stat) fuse.Status {
	n, st := o.node(in.NodeId)
	if !st.Ok() {
		return st
	}
	n.noteAttrRead(in.Pid)
	gen := n.peek()
	var err error
	if h := o.handles.get(fh); has && h != nil && h.acquire() {
		err = sys.StatFD(h.fd, sx)
		h.release()
	} else {
		err = o.statInode(n, sx)
	}
	if err != nil {
		return status(err)
	}
	o.observed(n, sx, gen)
	n.countNames(sx)
	return fuse.OK
}

// countNames sets sx.Nlink to 0 if the last name of n was removed, so that the kernel does not
// allow a new link. Names that the Observer made in order to save the file do not count.
func (n *inode) countNames(sx *sys.Stat) {
	if n.removed.Load() {
		sx.Nlink = 0
	}
}

func (o *contents) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	var sx sys.Stat
	st := o.attrs(&in.InHeader, in.Fh(), in.Flags()&fuse.FUSE_GETATTR_FH != 0, &sx)
	if st.Ok() {
		o.fillAttrOut(&sx, out)
	}
	return st
}

// Statx handles statx(2). The kernel sends the request when a program asks for the birth time.
func (o *contents) Statx(_ <-chan struct{}, in *fuse.StatxIn, out *fuse.StatxOut) fuse.Status {
	var sx sys.Stat
	st := o.attrs(&in.InHeader, in.Fh, in.GetattrFlags&fuse.FUSE_GETATTR_FH != 0, &sx)
	if st.Ok() {
		out.AttrValid, out.AttrValidNsec = o.ttl()
		o.fillStatx(&sx, &out.Statx)
	}
	return st
}

func (o *namespace) Readlink(_ <-chan struct{}, in *fuse.InHeader) ([]byte, fuse.Status) {
	n, st := o.node(in.NodeId)
	if !st.Ok() {
		return nil, st
	}
	var target []byte
	err := o.withInode(n, func(f sys.Ref) (err error) {
		target, err = sys.Target(f)
		return err
	})
	return target, status(err)
}

// StatFs returns the statistics of the file system that the node is on.
func (o *namespace) StatFs(_ <-chan struct{}, in *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	n, st := o.node(in.NodeId)
	if !st.Ok() {
		return st
	}
	return status(o.withInode(n, func(f sys.Ref) error {
		var s unix.Statfs_t
		if err := sys.Statfs(f, &s); err != nil {
			return err
		}
		fillStatfs(&s, out)
		return nil
	}))
}

// On a volume that ignores case or normalises names, several spellings lead to one entry. We record
// and report the directory's spelling. The kernel may cache only this spelling, and must ask for
// any other spelling each time. It must not cache the absence of a name either, because a file made
// under one spelling appears under all spellings.

// folds reports whether names in n, whose descriptor is d, have several spellings. An attribute of
// an empty directory controls that. If it is set later, we notice only after the kernel has
// forgotten n.
func (n *inode) folds(d *dirfd) bool {
	switch n.folding.Load() {
	case 0:
		if sys.Folds(d.fd) {
			n.folding.Store(foldsNames)
			return true
		}
		n.folding.Store(exactNames)
	case foldsNames:
		return true
	}
	return false
}

// Values of inode.folding; 0 means unknown.
const (
	foldsNames = 1
	exactNames = 2
)

// spelled returns the directory's spelling of name, which led to the file sx.
func (o *namespace) spelled(parent *inode, d *dirfd, name string, sx *sys.Stat) string {
	if !parent.folds(d) {
		return name
	}
	if n := o.table.find(keyOf(sx)); n != nil && !o.outside.Load() {
		o.tree.RLock()
		known := n.hasLinkLocked(parent, name)
		o.tree.RUnlock()
		if known {
			return name
		}
	}
	is, err := sys.Spelling(d.fd, name, sx.Ino)
	if err != nil {
		return name
	}
	return is
}

// respell replaces other spellings of (parent, name) among the names of n, in case a process
// changed the spelling in the source.
func (n *inode) respell(parent *inode, name string) {
	if parent.folding.Load() != foldsNames {
		return
	}
	var buf [2]link
	for _, l := range n.links(buf[:]) {
		if l.parent == parent && l.name != name && sys.SameName(l.name, name) && !n.hasLink(parent, name) {
			n.moveLink(parent, l.name, parent, name)
		}
	}
}

func (n *inode) hasLink(parent *inode, name string) bool {
	n.fs.tree.RLock()
	defer n.fs.tree.RUnlock()
	return n.hasLinkLocked(parent, name)
}

// dropSpellings makes the kernel drop what it has cached for both spellings of a changed entry: the
// one in the request and the one in the directory. If the two are equal, it does nothing.
func (o *namespace) dropSpellings(parent *inode, asked, is string) {
	if asked != is {
		o.notifier.name(parent.id, asked)
		o.notifier.name(parent.id, is)
	}
}

// settleNewName finds out how the directory spells the new name after a rename, because some
// volumes keep the spelling of an existing entry. If the rename only changed the spelling of one
// entry, settleNewName clears r.dst.
func (o *namespace) settleNewName(r *rename, ev *Event, to *dirfd) {
	r.newName = r.toName
	o.dropSpellings(r.from, r.askedFrom, r.fromName)
	if !r.to.folds(to) {
		return
	}
	r.newName = r.askedTo
	if is, err := sys.Spelling(to.fd, r.askedTo, r.srcStat.Ino); err == nil {
		r.newName = is
	}
	if r.src == r.dst && r.from == r.to && r.fromName == r.toName && r.newName != r.fromName {
		r.dst = nil // r.src and r.dst are the same entry
		o.notifier.name(r.from.id, r.fromName)
	}
	o.dropSpellings(r.to, r.askedTo, r.toName)
	o.dropSpellings(r.to, r.askedTo, r.newName)
	if o.obs != nil && r.newName != r.toName {
		ev.Path2 = r.to.childPath(r.newName)
		ev.Class2 = o.class(ev.Path2, r.src.isDir())
	}
}

// hidesSpelling reports whether name is the hidden name in any spelling.
func (o *namespace) hidesSpelling(parent *inode, d *dirfd, name string) bool {
	return o.hiddenName != "" && parent.folds(d) && o.hidden(parent, name)
}
