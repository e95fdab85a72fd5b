//go:build linux || darwin

package fusefs

import "cachebro/fusefs/sys"

// On a volume that ignores case or normalises names, several spellings lead to one entry. We record
// and report the directory's spelling. The kernel may cache only that one, and must ask for any
// other each time. It must not cache the absence of a name either, because a file made under one
// spelling appears under all.

// folds reports whether names in n, whose descriptor is d, have several spellings. An attribute of
// an empty directory can change that. We notice only after the kernel has forgotten n.
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

// spelled returns how the directory spells the name of the file sx, which was found as name.
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

// respell replaces other spellings of (parent, name) among the names of n, because another process
// changed the spelling on the source.
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

// changedAs is called after a change of an entry. If the request's spelling differs from the
// directory's, the kernel must drop what it has cached for both.
func (o *namespace) changedAs(parent *inode, asked, is string) {
	if asked != is {
		o.notifier.name(parent.id, asked)
		o.notifier.name(parent.id, is)
	}
}

// respelled finds out how the directory spells the new name after a rename, because some volumes
// keep the spelling of an existing entry. If the rename only changed the spelling of one entry,
// respelled clears r.dst.
func (o *namespace) respelled(r *rename, ev *Event, to *dirfd) {
	r.newName = r.toName
	o.changedAs(r.from, r.askedFrom, r.fromName)
	if !r.to.folds(to) {
		return
	}
	r.newName = r.askedTo
	if is, err := sys.Spelling(to.fd, r.askedTo, r.srcStat.Ino); err == nil {
		r.newName = is
	}
	if r.src == r.dst && r.from == r.to && r.fromName == r.toName && r.newName != r.fromName {
		r.dst = nil // r.src and r.dst are one entry
		o.notifier.name(r.from.id, r.fromName)
	}
	o.changedAs(r.to, r.askedTo, r.toName)
	o.changedAs(r.to, r.askedTo, r.newName)
	if o.obs != nil && r.newName != r.toName {
		ev.Path2 = r.to.childPath(r.newName)
		ev.Class2 = o.class(ev.Path2, r.src.isDir())
	}
}

// hidesAs reports whether name is the hidden name in any spelling.
func (o *namespace) hidesAs(parent *inode, d *dirfd, name string) bool {
	return o.hiddenName != "" && parent.folds(d) && o.hidden(parent, name)
}
