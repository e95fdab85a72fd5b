package undo

import (
	"maps"
	"slices"

	"cachebro/store"
)

// authorUnknown reports whether a version records only what a scan found. Its author is then
// unknown.
func authorUnknown(v *store.Version) bool {
	return v.Plan == "" && (v.Op == store.OpBaseline || v.Op == store.OpSeen || v.Op == store.OpOutside)
}

func (h *past) apply(v *store.Version) {
	if v.Excluded() {
		if c := h.lookup(v.Path.Dir()); c != nil && c.known {
			h.excludedIn[v.Seq] = c.now().node
		}
		return
	}
	if v.Path == "" { // the root has metadata but no entry
		h.bySeq[v.Seq] = h.root
		h.changed(h.root, v, newState(v), false)
		return
	}
	if c := h.lookup(v.Path); (c == nil || !c.known) && h.movedWithDir(v) {
		return
	}
	c := h.resolve(v)
	if c == nil {
		return // the directory had another name by then, and its rename moved the file
	}
	h.entryOf[v.Seq] = c
	switch v.Op {
	case store.OpUnlink, store.OpRmdir, store.OpMoved:
		h.emptyEntry(c, v)
		return
	case store.OpRename, store.OpExchange, store.OpLink, store.OpCreate, store.OpMkdir, store.OpSymlink, store.OpMknod:
		h.fillEntry(c, v)
		return
	}
	n := h.nodeOf(v, c)
	fresh := false
	switch {
	case !c.known && v.Op == store.OpChmod && madeLater(h.owns[v.Path], *v):
		fresh = true
		c.known = true
		n = h.put(c, n, v)
		n.made = v
	case !c.known:
		c.known, c.base.node = true, n
		c.found, c.since = v, v.Seq
		n.entries, n.names = append(n.entries, c), append(n.names, c)
	case c.now().node != n:
		n = h.put(c, n, v)
	}
	h.bySeq[v.Seq] = n
	h.changed(n, v, newState(v), fresh)
}

// emptyEntry records that an entry became empty.
func (h *past) emptyEntry(c *cell, v *store.Version) {
	if h.underNewName(c, v) {
		return
	}
	if !c.known {
		c.known, c.found = true, v
		if was := beforeRename(*v); !was.absent() {
			n := h.nodeOf(v, c)
			c.base.node = n
			n.entries, n.names = append(n.entries, c), append(n.names, c)
			n.beginAs(was)
			h.update(n, v)
		} else if n := h.nodes[store.InodeOf(v.Stat)]; n != nil && v.Op == store.OpUnlink && !n.dir() { // a name that nobody had seen, of a file that is known
			n = n.latest()
			c.base.node = n
			n.entries, n.names = append(n.entries, c), append(n.names, c)
		}
	}
	if n := c.now().node; n != nil {
		if in := store.InodeOf(v.Stat); in == n.in && in.Ino != 0 {
			n.nlink, n.late = v.Stat.Nlink, 0
			if v.Op != store.OpMoved {
				h.lostName(n, v.Stat.Nlink, h.lastAt(v.Path, v.Seq))
			}
		}
		h.bySeq[v.Seq] = n
		n.noteTime(v)
		if v.Op == store.OpRmdir && len(n.entries) == 1 { // a removed directory was empty, so all names in it had been removed
			h.setEmpty(n, v)
		}
	}
	if v.Op == store.OpMoved {
		h.leaving[arrival{v.To, v.Time}] = c.now().node
	}
	h.set(c, nil, v)
}

// setEmpty empties the entries of a directory and of the directories in it.
func (h *past) setEmpty(d *node, v *store.Version) {
	for _, name := range slices.Sorted(maps.Keys(d.kids)) {
		c := d.kids[name]
		if n := c.now().node; n != nil && n.dir() && len(n.entries) == 1 {
			h.setEmpty(n, v)
		}
		h.set(c, nil, v)
	}
}

// noteTime records the time that a file had when it lost a name. No version records a change of the
// time alone.
func (n *node) noteTime(v *store.Version) {
	st := n.content.base.st
	if last := len(n.content.facts) - 1; last >= 0 {
		st = n.content.facts[last].st
	}
	known := st.regular() && st.blob != (store.Hash{}) && !n.content.now().unknown
	if known && store.InodeOf(v.Stat) == n.in && st.size == v.Stat.Size && v.Stat.Mtime != 0 {
		st.mtime = v.Stat.Mtime
	}
}

// underNewName reports whether a file was recorded as removed only because a scan had already found
// its directory under a new name.
func (h *past) underNewName(c *cell, v *store.Version) bool {
	n := c.now().node
	below := store.Path("/") + c.name
	for d := c.dir; n != nil && d != h.root && len(d.entries) > 0; d = d.entries[0].dir {
		for _, at := range d.entries[1:] {
			p, _ := h.path(at)
			if last := h.lastAt(p+below, v.Seq); last.Seq != 0 && !last.Deleted() && store.InodeOf(last.Stat) == n.in {
				return true
			}
		}
		below = "/" + d.entries[0].name + below
	}
	return false
}

// movedWithDir reports whether a renamed file is already at its new name, because its directory was
// exchanged with another one.
func (h *past) movedWithDir(v *store.Version) bool {
	if v.Op != store.OpMoved {
		return false
	}
	to := h.lookup(v.To)
	return to != nil && to.known && to.now().node != nil && to.now().node.in == store.InodeOf(v.Stat)
}

// fillEntry puts the node of a version into an entry.
func (h *past) fillEntry(c *cell, v *store.Version) {
	n := h.nodeOf(v, c)
	if v.Op == store.OpExchange {
		h.leaving[arrival{v.From, v.Time}] = c.now().node
	}
	if v.Op == store.OpCreate && c.known && c.now().node == n && store.FoundNew(*h.foundBy(c), *v) {
		// A scan found the file before its creation was recorded.
		if len(c.facts) == 0 {
			c.base, c.found = value{}, noVersion
			n.entries = slices.DeleteFunc(n.entries, func(o *cell) bool { return o == c })
			h.set(c, n, v)
		} else {
			c.facts[len(c.facts)-1].attribute(v)
		}
		n.made = v
		h.bySeq[v.Seq] = n
		h.changed(n, v, newState(v), true)
		return
	}
	if !c.known {
		c.known = true
	}
	fresh := !n.seen && v.Op != store.OpRename && v.Op != store.OpExchange && v.Op != store.OpLink
	if fresh {
		n.made = v
	}
	n = h.put(c, n, v)
	h.bySeq[v.Seq] = n
	h.changed(n, v, newState(v), fresh && n.made.Seq == v.Seq)
}

// foundBy returns the version of the scan that found the entry's present value, or noVersion.
func (h *past) foundBy(c *cell) *store.Version {
	if len(c.facts) == 0 {
		return c.found
	}
	if f := c.facts[len(c.facts)-1]; f.found {
		return f.v
	}
	return noVersion
}

// saveTime bounds the duration of an atomic save, in ns.
const saveTime = int64(60e9)

// justMade reports whether the process of version v has just made the node.
func (n *node) justMade(v *store.Version) bool {
	if !n.seen {
		return v.Op != store.OpBaseline && v.Op != store.OpLink
	}
	named := v.Op == store.OpRename || v.Op == store.OpExchange && v.Plan != "" || n.made.Seq == v.Seq
	return named && n.made.Seq != 0 && samePID(n.made.Actor, v.Actor) && v.Time-n.made.Time <= saveTime
}

// namesThen returns how many names a new file had when version v gave it a name. The count in v
// itself may be newer, because the store updates it until the path has a newer version.
func (h *past) namesThen(v *store.Version) uint32 {
	left := h.lastAt(v.From, v.Seq)
	switch {
	case v.Op != store.OpRename:
		return 1
	case left.Op == store.OpMoved && left.To == v.Path && left.Time == v.Time:
		return left.Stat.Nlink
	}
	return v.Stat.Nlink
}

func samePID(a, b store.Actor) bool { return a.PID == b.PID && a.Start == b.Start }

// birthLag bounds how far the birth time of a file is behind the clock, in ns.
const birthLag = int64(20e6)

// madeAgain returns the node that an entry held before, if the process of version v removed that
// node and v makes it again. Otherwise it returns nil. A file that is older than the removal was
// not made again: it was moved here, perhaps from an unrecorded path, and may have other names.
func (c *cell) madeAgain(v *store.Version) *node {
	last := len(c.facts) - 1
	if last < 0 {
		return nil
	}
	by := c.facts[last].v
	older := v.Op != store.OpRename && v.Stat.Birth != 0 && v.Stat.Birth < by.Time-birthLag
	if older || v.Time-by.Time > saveTime || !samePID(by.Actor, v.Actor) {
		return nil
	}
	n := c.before(last).node
	if n != nil && n.nlink > 0 && !n.dir() {
		return nil
	}
	return n
}

// put puts a node into an entry. If the node was made to replace an older node, or to make it
// again, put merges it into the older node.
func (h *past) put(c *cell, n *node, v *store.Version) *node {
	cur := c.now().node
	if cur == n {
		return n
	}
	goesOn := (*node)(nil)
	alike := cur != nil && cur.kind == n.kind && !cur.dir()
	replaced := alike && len(cur.entries) == 1 && cur.nlink < 2
	switch {
	case v.Plan != "" && n.justMade(v) && h.recordsCells(v.Plan):
		goesOn = h.restoredNode(v, c)
		if goesOn != nil { // if another file had been saved over, the plan separates the two again
			goesOn.continuesAs = nil
		}
	case !n.justMade(v), !n.dir() && (len(n.entries) > 0 || h.namesThen(v) > 1): // the version did not make the node, or the file has other names
	case replaced:
		goesOn = cur
	case cur == nil:
		goesOn = c.madeAgain(v)
	}
	goesOn = goesOn.latest()
	taken := goesOn != nil && goesOn != cur && len(goesOn.entries) > 0
	different := goesOn == nil || goesOn == n || goesOn.kind != n.kind
	if different || taken || n.holdsEntries() {
		h.set(c, n, v)
		return n
	}
	if goesOn == cur {
		otherInode := cur.in.Ino != 0 && cur.in != n.in
		keepsName := v.Op == store.OpExchange || len(cur.entries) > 1
		if otherInode && keepsName {
			h.replacedFile(cur, c, v)
		}
	}
	if n.in.Ino != 0 {
		h.nodes[n.in] = goesOn
	}
	n.continuesAs = goesOn
	if len(goesOn.entries) == 0 && !goesOn.dir() {
		goesOn.strangers = max(goesOn.strangers, goesOn.strangeNames())
	}
	goesOn.nlink, goesOn.late = n.nlink, n.late
	n.nlink, n.late = 0, 0
	if n.seen && n.content.known { // the older node gets the values that n had when it was made
		h.write(&goesOn.content, n.content.now().st, v)
		h.write(&goesOn.meta, n.meta.now().st, v)
		if last := len(goesOn.content.facts) - 1; last >= 0 && goesOn.content.facts[last].v == v { // otherwise the older node already had this content
			for _, f := range n.content.facts {
				goesOn.content.facts[last].seqs = append(goesOn.content.facts[last].seqs, f.seqs...)
			}
		}
	}
	h.set(c, goesOn, v)
	return goesOn
}

// replacedFile makes a node for the old file after version v put another file in its place at an
// entry. Until then, n was the old file; from then on, n is the new one. The old file keeps its
// other names, or the name that an exchange gave it.
func (h *past) replacedFile(n *node, at *cell, v *store.Version) {
	old := h.newNode(n.kind, n.in)
	old.seen, old.nlink = true, n.nlink
	old.content.known, old.content.base = true, n.content.now()
	old.meta.known, old.meta.base = true, n.meta.now()
	h.nodes[n.in] = old
	for _, c := range slices.Clone(n.entries) {
		if c != at {
			h.set(c, old, v)
		}
	}
}

// holdsEntries reports whether a directory has entries. Such a directory does not replace another
// one.
func (n *node) holdsEntries() bool {
	for _, c := range n.kids {
		if c.now().node != nil {
			return true
		}
	}
	return false
}

// changed adds what a version records about the content and metadata of its node. fresh means that
// the version created the node.
func (h *past) changed(n *node, v *store.Version, st *state, fresh bool) {
	if !n.dir() {
		c := &n.content
		switch {
		case !c.known:
			c.known = true
			if !fresh && (v.Op == store.OpWrite || v.Op == store.OpTruncate) && !authorUnknown(v) {
				c.base.unknown = true
				h.write(c, st, v)
			} else {
				c.base.st = st
			}
		case h.describe(n, *st):
			if (v.Op == store.OpWrite || v.Op == store.OpTruncate) && c.claimed(v) {
				break
			}
			if last := len(c.facts) - 1; last >= 0 && c.facts[last].v.Time == v.Time {
				c.facts[last].seqs = append(c.facts[last].seqs, v.Seq)
			}
			replaced := v.Op == store.OpRename && store.InodeOf(v.Stat) != n.in || v.Op == store.OpCreate && !fresh
			if cur := c.now().st; (replaced || v.Plan != "") && cur.mtime != st.mtime {
				c.facts = append(c.facts, fact{value: value{st: st}, v: v, seqs: []uint64{v.Seq}})
			}
		case v.Op != store.OpChmod || v.Plan != "": // a chmod may record a content that was known before
			h.write(c, st, v)
		}
	}
	c := &n.meta
	switch {
	case !c.known:
		c.known = true
		if !fresh && v.Op == store.OpChmod && !authorUnknown(v) {
			c.base.unknown = true
			h.write(c, st, v)
		} else {
			c.base.st = st
		}
	default:
		h.write(c, st, v)
	}
	h.update(n, v)
}

// claimed makes the author of v the author of the present value, if only a scan has recorded that
// value so far, because it ran before the writer closed the file. It returns false if it changes
// nothing.
func (c *cell) claimed(v *store.Version) bool {
	last := len(c.facts) - 1
	if last < 0 || !c.facts[last].found || authorUnknown(v) {
		return false
	}
	c.facts[last].attribute(v)
	return true
}

// attribute makes v the version that recorded a fact which a scan had found.
func (f *fact) attribute(v *store.Version) {
	f.v, f.found = v, false
	f.seqs = append(f.seqs, v.Seq)
}

// write sets the value of a content or metadata cell.
func (h *past) write(c *cell, st *state, v *store.Version) {
	val := value{st: st}
	if c.same(c.now(), val) {
		if c.claimed(v) {
			return
		}
		if last := len(c.facts) - 1; last >= 0 && c.facts[last].v.Time == v.Time {
			c.facts[last].seqs = append(c.facts[last].seqs, v.Seq)
		}
		return
	}
	c.facts = append(c.facts, fact{value: val, v: v, seqs: []uint64{v.Seq}, found: authorUnknown(v)})
}

// describe reports whether a state has the node's present content. If so, it adds details that were
// unknown.
func (h *past) describe(n *node, st state) bool {
	c := &n.content
	cur := c.now()
	if cur.unknown || cur.st.kind() != st.kind() {
		return false
	}
	to := c.base.st
	if len(c.facts) > 0 {
		to = c.facts[len(c.facts)-1].st
	}
	switch {
	case st.link():
		if to.target == "" || st.target == "" {
			to.target = to.target + st.target
			return true
		}
		return to.target == st.target
	case st.regular():
		zero := store.Hash{}
		if to.blob != zero && st.blob != zero {
			return to.blob == st.blob
		}
		if to.size != st.size || to.mtime != st.mtime && st.size > 0 {
			return false
		}
		if to.blob == zero {
			to.blob, to.noContent = st.blob, st.noContent
		}
		return true
	}
	return true
}
