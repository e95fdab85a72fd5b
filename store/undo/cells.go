package undo

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"cachebro/store"

	"golang.org/x/sys/unix"
)

// node is what names stand for: a file, directory or symbolic link. It goes on where a
// save puts another inode in its place, where it is made again under its name, and where
// a plan brings it back.
type node struct {
	kind      uint32 // type bits of st_mode
	in        store.Inode
	foreign   bool   // in is of another machine
	nlink     uint32 // as it was told last
	kids      map[store.Path]*cell
	at        []*cell        // the entries that hold it now
	bare      bool           // a directory of which only what is in it is known
	made      *store.Version // by which it was made; Seq 0: it was there before
	seen      bool           // a version of it has been read
	names     []*cell        // all entries that ever held it
	goesOn    *node          // which it took the place of
	strangers uint32         // names that it had, of which nothing is known, when it went and a plan brought it back

	content, meta cell
}

func (n *node) dir() bool { return n.kind == unix.S_IFDIR }

// value is what a cell holds.
type value struct {
	node    *node  // of an entry; nil: nothing
	st      *state // of a content or of metadata
	unknown bool   // nobody saw it
}

const (
	entryCell   = store.CellEntry
	contentCell = store.CellContent
	metaCell    = store.CellMeta
)

// cell is the smallest thing that has a value: an entry of a directory, or the content
// or the metadata of a node.
type cell struct {
	kind  uint8
	dir   *node          // of an entry
	name  store.Path     // of an entry
	title store.Path     // see past.title
	of    *node          // of a content or of metadata
	known bool           // something is known of it
	base  value          // before all facts
	since uint64         // the version that says what the base is; 0: none
	found *store.Version // the scan that found the base; Seq is 0 if the base was recorded before
	facts []fact
}

// noVersion and absent stand for none.
var (
	noVersion = &store.Version{}
	absent    state
)

// fact says that a cell got a value.
type fact struct {
	value
	v     *store.Version // that says so
	seqs  []uint64       // and all others that do
	found bool           // nobody is known to have done it
	said  bool           // a plan says so, and no version
}

// seq is the version that says what the value is before a fact.
func (c *cell) seq(i int) uint64 {
	switch {
	case i > 0:
		return c.facts[i-1].v.Seq
	case c.kind == entryCell:
		return c.since
	}
	return c.base.st.seq
}

func (c *cell) now() value { return c.before(len(c.facts)) }

// before is the value before a fact.
func (c *cell) before(i int) value {
	if i == 0 {
		return c.base
	}
	return c.facts[i-1].value
}

func (c *cell) same(a, b value) bool {
	switch {
	case a.unknown || b.unknown:
		return a.unknown && b.unknown
	case c.kind == entryCell:
		return a.node == b.node
	case c.kind == contentCell:
		if zero := (store.Hash{}); a.st.regular() && b.st.regular() && (a.st.blob == zero) != (b.st.blob == zero) { // nobody read one of them
			return a.st.size == b.st.size && (a.st.mtime == b.st.mtime || a.st.size == 0)
		}
		return a.st.sameContent(*b.st)
	}
	return (a.st.link() && b.st.link() || a.st.perm() == b.st.perm()) && a.st.sameOwner(*b.st) && a.st.attrs.Same(b.st.attrs)
}

// past is what became of some cells from one version on.
type past struct {
	m       *maker
	lo      uint64
	whole   bool  // all is read
	begun   int64 // when what is asked for began
	root    *node
	now     *outcome // the tree as it is, once it was asked for
	nodes   map[store.Inode]*node
	bySeq   map[uint64]*node                // what a version is of
	entryOf map[uint64]*cell                // the entry that a version changes
	saidBy  map[string]map[*cell]store.Cell // what plans say of cells, as far as it was asked
	all     []*node
	sure    map[store.Path]bool // looked at
	owns    map[store.Path][]store.Version
	leaving map[arrival]*node // what has left its name, by the name that it gets at the same moment
}

// arrival is the moment at which a path gets what had another name until then.
type arrival struct {
	path store.Path
	time int64
}

// since reads what became of paths, and of all that has to do with them, from the
// version lo on.
func (m *maker) cellsSince(paths []store.Path, lo uint64, known map[uint64]*store.Version) (*past, error) {
	var h *past
	var vs []*store.Version
	oldest := lo
	for {
		h = &past{
			m: m, lo: lo, nodes: make(map[store.Inode]*node, len(paths)), bySeq: make(map[uint64]*node, 2*len(paths)), entryOf: make(map[uint64]*cell, 2*len(paths)),
			saidBy: map[string]map[*cell]store.Cell{}, sure: make(map[store.Path]bool, len(paths)), owns: make(map[store.Path][]store.Version, len(paths)),
			leaving: map[arrival]*node{},
		}
		h.root = h.newNode(unix.S_IFDIR, store.Inode{})
		var err error
		vs, err = h.read(paths, known)
		if err != nil {
			return nil, err
		}
		since := m.sinceOf(vs)
		if since >= lo {
			break
		}
		lo = since
	}
	m.plan.Since = lo
	h.begun = 1<<63 - 1
	if i := slices.IndexFunc(vs, func(v *store.Version) bool { return v.Seq >= oldest }); i >= 0 {
		h.begun = vs[i].Time
	}
	var begin []store.Path
	for p := range h.owns {
		begin = append(begin, p)
	}
	slices.Sort(begin)
	for _, p := range begin {
		h.begin(p)
	}
	last := map[string]int{} // of each plan's versions
	for i := range vs {
		last[vs[i].Plan] = i
	}
	for i := range vs {
		h.apply(vs[i])
		if plan := vs[i].Plan; plan != "" && last[plan] == i {
			h.enterSaid(plan)
		}
	}
	h.whole = true
	for _, n := range h.all {
		for _, c := range n.at {
			if p, ok := h.path(c); ok && !n.dir() {
				if own := h.owns[p]; len(own) > 0 && store.InodeOf(own[len(own)-1].Stat) == n.in {
					n.nlink = own[len(own)-1].Stat.Nlink
				}
			}
		}
	}
	return h, nil
}

// enterSaid enters what a plan made of contents and metadata, where no version tells: of what
// was nowhere afterwards, and of files in directories that are excluded.
func (h *past) enterSaid(plan string) {
	if !h.speaks(plan) {
		return
	}
	of, err := h.m.store.Journal.Head(plan)
	if err != nil {
		return
	}
	for c, r := range h.saidBy[plan] {
		to, known := h.broughtTo(r, c, len(c.facts))
		if !known || c.kind == entryCell {
			continue
		}
		want := c.before(to + 1)
		if r.Gone && len(c.of.at) > 0 || !r.Gone && (c.same(want, c.now()) || !h.changedUntold(&of, c)) {
			continue // or a step failed
		}
		c.facts = append(c.facts, fact{
			value: want, seqs: []uint64{of.Seq + 1}, said: true,
			v: &store.Version{Seq: c.seq(len(c.facts)), Time: of.Begun, Plan: plan, Path: h.title(c)},
		})
	}
}

// changedUntold reports whether a plan gave a file its content or metadata, and no version
// tells of it.
func (h *past) changedUntold(of *store.Plan, c *cell) bool {
	p, there := h.path(c)
	told := func(v store.Version) bool {
		moved := v.Op == store.OpRename && !store.OwnFile(v.From) || v.Op == store.OpExchange || v.Op == store.OpMoved
		return v.Plan == of.ID && !moved
	}
	if !there || c.of.dir() || slices.ContainsFunc(h.owns[p], told) {
		return false
	}
	if of.Steps == nil {
		whole, err := h.m.store.Journal.Plan(of.ID)
		if err != nil {
			return false
		}
		*of = whole
	}
	if slices.ContainsFunc(of.Failed, func(f store.Conflict) bool { return f.Path == p }) {
		return false
	}
	return slices.ContainsFunc(of.Steps, func(s store.Step) bool {
		does := s.Do == store.DoWrite || s.Do == store.DoChmod && c.kind == metaCell
		return s.Path == p && does && slices.Contains(of.Done, s.N)
	})
}

// sinceOf is the oldest version that was looked at for the plans that made versions: which
// node goes on where is seen alike only from there on.
func (m *maker) sinceOf(vs []*store.Version) uint64 {
	least := ^uint64(0)
	seen := map[string]bool{"": true}
	for _, v := range vs {
		if seen[v.Plan] {
			continue
		}
		seen[v.Plan] = true
		if p, err := m.store.Journal.Head(v.Plan); err == nil && p.Since > 0 {
			least = min(least, p.Since)
		}
	}
	return least
}

// renaming is one rename of a directory.
type renaming struct {
	time     int64
	from, to store.Path
}

// read reads the histories of paths, of the directories above them, and of the other
// names that what is there had since. It answers the versions since, in order.
func (h *past) read(paths []store.Path, known map[uint64]*store.Version) ([]*store.Version, error) {
	var vs []*store.Version
	todo := map[store.Path]bool{}
	want := func(p store.Path) {
		for p != "" && !h.sure[p] {
			h.sure[p], todo[p] = true, true
			p, _ = split(p)
		}
	}
	for _, p := range paths {
		want(p)
	}
	moves, inodes := map[renaming]bool{}, map[store.Inode]bool{}
	for len(todo) > 0 {
		next := make([]store.Path, 0, len(todo))
		for p := range todo {
			next = append(next, p)
		}
		slices.Sort(next)
		todo = map[store.Path]bool{}
		var names []store.Inode
		err := h.m.view.Histories(next, known, func(p store.Path, own []store.Version) error {
			h.owns[p] = own
			note := func(v *store.Version) {
				if in := store.InodeOf(v.Stat); v.Stat.Nlink > 1 && in.Ino != 0 && !stateOf(*v).dir() && !inodes[in] {
					inodes[in] = true
					names = append(names, in)
				}
			}
			for i := range own {
				v := &own[i]
				if v.Seq < h.lo {
					if i+1 == len(own) || own[i+1].Seq >= h.lo {
						note(v)
					}
					continue
				}
				vs = append(vs, v)
				note(v)
				want(v.From)
				want(v.To)
				if isDir := v.Stat.Mode&unix.S_IFMT == unix.S_IFDIR; isDir && (v.Op == store.OpRename || v.Op == store.OpExchange) {
					moves[renaming{v.Time, v.From, p}] = true
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		for _, in := range names {
			all, err := h.m.view.NamesOf(in)
			if err != nil {
				return nil, err
			}
			for _, p := range all {
				want(p)
			}
		}
		if len(todo) > 0 {
			continue
		}
		// What was in a directory under its other name.
		for r := range moves {
			fromDir, fromName := split(r.from)
			toDir, toName := split(r.to)
			if fromName == toName && moves[renaming{r.time, fromDir, toDir}] {
				continue // it went along
			}
			for p, own := range h.owns {
				if len(own) == 0 {
					continue // there never was anything
				}
				if p != r.to && p.Inside(r.to) {
					want(r.from + p[len(r.to):])
				}
				if p != r.from && p.Inside(r.from) {
					want(r.to + p[len(r.from):])
				}
			}
		}
	}
	slices.SortFunc(vs, func(a, b *store.Version) int { return compareSeq(a.Seq, b.Seq) })
	return vs, nil
}

func compareSeq(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func (h *past) newNode(kind uint32, in store.Inode) *node {
	n := &node{kind: kind, in: in, made: noVersion}
	n.content = cell{kind: contentCell, of: n, found: noVersion, base: value{st: &absent}}
	n.meta = cell{kind: metaCell, of: n, found: noVersion, base: value{st: &absent}}
	if n.dir() {
		n.kids = map[store.Path]*cell{}
	}
	h.all = append(h.all, n)
	return n
}

// beginAs enters what a node was before all facts.
func (n *node) beginAs(st state) {
	n.content.known, n.content.base.st = true, &st
	n.meta.known, n.meta.base.st = true, &st
}

// entry is the cell of a name in a directory.
func (h *past) entry(dir *node, name store.Path) *cell {
	c := dir.kids[name]
	if c == nil {
		c = &cell{kind: entryCell, dir: dir, name: name, found: noVersion}
		dir.kids[name] = c
	}
	return c
}

// resolve is the cell of a path; nil: its directory is not there.
func (h *past) resolve(p store.Path) *cell {
	dir := h.root
	for {
		name, rest, more := strings.Cut(string(p), "/")
		c := h.entry(dir, store.Path(name))
		if !more {
			return c
		}
		if !c.known {
			n := h.newNode(unix.S_IFDIR, store.Inode{})
			n.bare, n.meta.base.st = true, &state{mode: unix.S_IFDIR | 0o755}
			c.known, c.base.node = true, n
			n.at, n.names = append(n.at, c), append(n.names, c)
		}
		dir = c.now().node
		if dir == nil || !dir.dir() {
			return nil
		}
		p = store.Path(rest)
	}
}

// lookup is the cell of a path, if something is known of it; nil: nothing is.
func (h *past) lookup(p store.Path) *cell {
	dir, name := split(p)
	d := h.root
	if dir != "" {
		c := h.lookup(dir)
		if c == nil || !c.known || c.now().node == nil {
			return nil
		}
		d = c.now().node
	}
	return d.kids[name]
}

// begin enters what a path was before.
func (h *past) begin(p store.Path) {
	own := h.owns[p]
	i := -1
	for i+1 < len(own) && own[i+1].Seq < h.lo {
		i++
	}
	if i >= 0 && i+1 < len(own) && store.FoundNew(own[i], own[i+1]) { // a scan recorded it before its maker did
		i--
	}
	if i < 0 {
		return
	}
	c := h.resolve(p)
	if c == nil || c.known {
		return
	}
	v := &own[i]
	c.known, c.since = true, v.Seq
	h.entryOf[v.Seq] = c
	if v.Deleted() {
		return
	}
	n := h.nodeOf(v, c)
	h.bySeq[v.Seq] = n
	c.base.node = n
	n.at, n.names = append(n.at, c), append(n.names, c)
	if !n.seen {
		n.seen = true
		n.beginAs(stateOf(*v))
	} else {
		h.describe(n, stateOf(*v))
	}
	h.told(n, v)
}

// told notes what every version says of its node.
func (h *past) told(n *node, v *store.Version) {
	if in := store.InodeOf(v.Stat); in.Ino != 0 {
		n.in, n.foreign, n.nlink = in, v.Foreign, v.Stat.Nlink
	}
	n.seen, n.bare = true, false
}

// nodeOf is the node that a version is of.
func (h *past) nodeOf(v *store.Version, c *cell) *node {
	kind, in := stateOf(*v).kind(), store.InodeOf(v.Stat)
	cur := c.now().node
	if n := h.cameFrom(v); n != nil && n.kind == kind && h.nodes[in] == nil && n.elsewhere(v) {
		if in.Ino != 0 {
			h.nodes[in] = n
		}
		return n
	}
	if in.Ino == 0 {
		if cur != nil && cur.kind == kind {
			return cur
		}
		return h.newNode(kind, in)
	}
	if n := h.nodes[in]; n != nil && n.kind == kind {
		return n
	}
	if cur != nil && cur.kind == kind && (cur.bare || cur.elsewhere(v)) {
		h.nodes[in] = cur
		return cur
	}
	n := h.newNode(kind, in)
	h.nodes[in] = n
	return n
}

// elsewhere reports whether the inode numbers of a node and a version do not tell whether they are
// of the same file, because one is not known or is of another machine.
func (n *node) elsewhere(v *store.Version) bool {
	return n.in.Ino == 0 || v.Stat.Ino == 0 || n.foreign != v.Foreign
}

// cameFrom is the node that a rename, an exchange or a link gives a name; nil: it is not known.
// Versions that came from another machine have no inode number that tells.
func (h *past) cameFrom(v *store.Version) *node {
	if n := h.leaving[arrival{v.Path, v.Time}]; n != nil {
		return n
	}
	if v.Op != store.OpLink && v.Op != store.OpExchange {
		return nil
	}
	if c := h.lookup(v.From); c != nil {
		return c.now().node
	}
	return nil
}

// set gives an entry a node, or nil.
func (h *past) set(c *cell, n *node, v *store.Version) {
	was := c.now().node
	if was == n {
		return
	}
	c.facts = append(c.facts, fact{value: value{node: n}, v: v, seqs: []uint64{v.Seq}, found: nobodys(v)})
	if was != nil && n != nil && v.Op != store.OpExchange { // it lost this name
		if last := h.lastAt(v.Path, v.Seq); !last.Deleted() && store.InodeOf(last.Stat) == was.in && last.Stat.Nlink > 0 {
			was.nlink = h.left(last.Stat.Nlink, last)
		}
	}
	if was != nil {
		was.at = slices.DeleteFunc(was.at, func(o *cell) bool { return o == c })
	}
	if n != nil {
		n.at = append(n.at, c)
		if !slices.Contains(n.names, c) {
			n.names = append(n.names, c)
		}
	}
}

// left returns how many names a file has after it lost one. A name that it was given since, at a
// place of which nothing is recorded, does not count.
func (h *past) left(nlink uint32, last store.Version) uint32 {
	if last.Linked >= h.begun && nlink > 1 {
		nlink--
	}
	return max(nlink, 1) - 1
}

// lastAt is the newest version of a path before a number; Seq 0: there is none.
func (h *past) lastAt(p store.Path, seq uint64) (last store.Version) {
	own := h.owns[p]
	if i, _ := slices.BinarySearchFunc(own, seq, func(o store.Version, seq uint64) int { return cmp.Compare(o.Seq, seq) }); i > 0 {
		last = own[i-1]
	}
	return last
}

// nobodys: the version only says that something was found so.
func nobodys(v *store.Version) bool {
	return v.Plan == "" && (v.Op == store.OpBaseline || v.Op == store.OpSeen || v.Op == store.OpOutside)
}

// apply enters what a version tells.
func (h *past) apply(v *store.Version) {
	if v.Excluded() {
		return
	}
	if c := h.lookup(v.Path); (c == nil || !c.known) && h.wentAlong(v) {
		return
	}
	c := h.resolve(v.Path)
	if c == nil {
		return // its directory had another name by then, and it went along
	}
	h.entryOf[v.Seq] = c
	switch v.Op {
	case store.OpUnlink, store.OpRmdir, store.OpMoved:
		h.leaves(c, v)
		return
	case store.OpRename, store.OpExchange, store.OpLink, store.OpCreate, store.OpMkdir, store.OpSymlink, store.OpMknod:
		h.comes(c, v)
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
		c.known, c.base.node, c.found, c.since = true, n, v, v.Seq
		n.at, n.names = append(n.at, c), append(n.names, c)
	case c.now().node != n:
		n = h.put(c, n, v)
	}
	h.bySeq[v.Seq] = n
	h.changed(n, v, newState(v), fresh)
}

// leaves: an entry holds nothing any more.
func (h *past) leaves(c *cell, v *store.Version) {
	if h.underNewName(c, v) {
		return
	}
	if !c.known {
		c.known, c.found = true, v
		if was := carriedAway(*v); !was.absent() {
			n := h.nodeOf(v, c)
			c.base.node = n
			n.at, n.names = append(n.at, c), append(n.names, c)
			n.beginAs(was)
			h.told(n, v)
		}
	}
	if n := c.now().node; n != nil {
		if in := store.InodeOf(v.Stat); in == n.in && in.Ino != 0 {
			n.nlink = v.Stat.Nlink
			if v.Op != store.OpMoved {
				n.nlink = h.left(n.nlink, h.lastAt(v.Path, v.Seq))
			}
		}
		h.bySeq[v.Seq] = n
		if v.Op == store.OpRmdir && len(n.at) == 1 { // it was empty by then
			for _, name := range slices.Sorted(maps.Keys(n.kids)) {
				h.set(n.kids[name], nil, v)
			}
		}
	}
	if v.Op == store.OpMoved {
		h.leaving[arrival{v.To, v.Time}] = c.now().node
	}
	h.set(c, nil, v)
}

// underNewName reports whether a file was recorded as removed only because a scan found its
// directory under a new name first.
func (h *past) underNewName(c *cell, v *store.Version) bool {
	n := c.now().node
	below := store.Path("/") + c.name
	for d := c.dir; n != nil && d != h.root && len(d.at) > 0; d = d.at[0].dir {
		for _, at := range d.at[1:] {
			p, _ := h.path(at)
			if last := h.lastAt(p+below, v.Seq); last.Seq != 0 && !last.Deleted() && store.InodeOf(last.Stat) == n.in {
				return true
			}
		}
		below = "/" + d.at[0].name + below
	}
	return false
}

// wentAlong: what a version says was renamed is at its new name by now. It was in a
// directory that changed places with another.
func (h *past) wentAlong(v *store.Version) bool {
	if v.Op != store.OpMoved {
		return false
	}
	to := h.lookup(v.To)
	return to != nil && to.known && to.now().node != nil && to.now().node.in == store.InodeOf(v.Stat)
}

// comes gives an entry the node of a version.
func (h *past) comes(c *cell, v *store.Version) {
	n := h.nodeOf(v, c)
	if v.Op == store.OpExchange {
		h.leaving[arrival{v.From, v.Time}] = c.now().node
	}
	if v.Op == store.OpCreate && c.known && c.now().node == n && store.FoundNew(*h.foundBy(c), *v) {
		// A scan recorded it before its maker did.
		if len(c.facts) == 0 {
			c.base, c.found = value{}, noVersion
			n.at = slices.DeleteFunc(n.at, func(o *cell) bool { return o == c })
			h.set(c, n, v)
		} else {
			f := &c.facts[len(c.facts)-1]
			f.v, f.found, f.seqs = v, false, append(f.seqs, v.Seq)
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

// foundBy is the version by which what an entry holds was found, if it was.
func (h *past) foundBy(c *cell) *store.Version {
	if len(c.facts) == 0 {
		return c.found
	}
	if f := c.facts[len(c.facts)-1]; f.found {
		return f.v
	}
	return noVersion
}

// saveTime bounds how long a process may take for an atomic save, in ns.
const saveTime = int64(60e9)

// new: a node was made a moment ago by whoever puts it under a name now.
func (n *node) new(v *store.Version) bool {
	if !n.seen {
		return v.Op != store.OpBaseline && v.Op != store.OpLink
	}
	return n.made.Seq != 0 && (v.Op == store.OpRename || v.Op == store.OpExchange && v.Plan != "" || n.made.Seq == v.Seq) && samePID(n.made.Actor, v.Actor) && v.Time-n.made.Time <= saveTime
}

func samePID(a, b store.Actor) bool { return a.PID == b.PID && a.Start == b.Start }

// put gives an entry a node. One that was made to take the place of another, or that is
// made again, is that other one from now on.
func (h *past) put(c *cell, n *node, v *store.Version) *node {
	cur := c.now().node
	if cur == n {
		return n
	}
	goesOn := (*node)(nil)
	replaced := cur != nil && cur.kind == n.kind && len(cur.at) == 1 && cur.nlink < 2 && !cur.dir()
	switch {
	case v.Plan != "" && n.new(v) && h.speaks(v.Plan):
		goesOn = h.broughtBy(v, c)
	case !n.new(v), !n.dir() && (len(n.at) > 0 || v.Stat.Nlink > 1): // the latter has other names
	case replaced:
		goesOn = cur
	case len(c.facts) > 0 && cur == nil && v.Time-c.facts[len(c.facts)-1].v.Time <= saveTime && samePID(c.facts[len(c.facts)-1].v.Actor, v.Actor):
		goesOn = c.before(len(c.facts) - 1).node // who removed it makes it again
		if goesOn != nil && goesOn.nlink > 0 && !goesOn.dir() {
			goesOn = nil
		}
	}
	taken := goesOn != nil && goesOn != cur && len(goesOn.at) > 0
	if goesOn == nil || goesOn == n || goesOn.kind != n.kind || taken || n.holdsEntries() {
		h.set(c, n, v)
		return n
	}
	if v.Op == store.OpExchange && goesOn == cur && cur.in.Ino != 0 { // what it was is under the other name now
		old := h.newNode(cur.kind, cur.in)
		old.seen, old.nlink = true, cur.nlink
		old.content.known, old.content.base = true, cur.content.now()
		old.meta.known, old.meta.base = true, cur.meta.now()
		h.nodes[cur.in] = old
	}
	if n.in.Ino != 0 {
		h.nodes[n.in] = goesOn
	}
	n.goesOn = goesOn
	if len(goesOn.at) == 0 && !goesOn.dir() {
		goesOn.strangers = max(goesOn.strangers, goesOn.nlink)
	}
	goesOn.nlink, n.nlink = n.nlink, 0
	if n.seen && n.content.known { // what it was made with
		h.write(&goesOn.content, n.content.now().st, v)
		h.write(&goesOn.meta, n.meta.now().st, v)
		for _, f := range n.content.facts {
			last := &goesOn.content
			if len(last.facts) > 0 {
				last.facts[len(last.facts)-1].seqs = append(last.facts[len(last.facts)-1].seqs, f.seqs...)
			}
		}
	}
	h.set(c, goesOn, v)
	return goesOn
}

// holdsEntries reports whether a directory has entries. Such a directory was not made to take the
// place of another one.
func (n *node) holdsEntries() bool {
	for _, c := range n.kids {
		if c.now().node != nil {
			return true
		}
	}
	return false
}

// broughtBy is the node that a plan wrote anew at an entry; nil: that is not known.
func (h *past) broughtBy(v *store.Version, c *cell) *node {
	if r, ok := h.said(v.Plan, c); ok {
		if r.Made {
			return nil
		}
		if i, known := h.broughtTo(r, c, len(c.facts)); known {
			return c.before(i + 1).node
		}
		return h.nodeAt(r.Back)
	}
	if cur := c.now().node; cur != nil {
		_, content := h.said(v.Plan, &cur.content)
		_, meta := h.said(v.Plan, &cur.meta)
		if content || meta {
			return cur
		}
	}
	return nil
}

// said is what a plan that was begun says of a cell; false: nothing.
func (h *past) said(plan string, c *cell) (store.Cell, bool) {
	cells, asked := h.saidBy[plan]
	if !asked {
		h.saidBy[plan] = nil
		if p, err := h.m.store.Journal.Plan(plan); err == nil && p.Since > 0 {
			cells = map[*cell]store.Cell{}
			h.saidBy[plan] = cells
			for _, r := range p.Cells {
				if of := h.cellOf(r.Kind, r.Was); of != nil {
					cells[of] = r
				}
			}
		}
	}
	r, ok := cells[c]
	return r, ok
}

// speaks: a plan says what it does to each cell. Those of older programs do not.
func (h *past) speaks(plan string) bool {
	h.said(plan, nil)
	return h.saidBy[plan] != nil
}

// broughtTo is the fact of a cell, before fact i, whose value a plan was to bring back; -1:
// the base. False: it is older than all that was read, or the value was that of no version.
func (h *past) broughtTo(r store.Cell, c *cell, i int) (int, bool) {
	if r.Made || r.From == 0 && r.Back < c.seq(0) || r.From != 0 && r.From < h.lo {
		return 0, false
	}
	from := r.From
	if from == 0 {
		from = r.Back + 1
	}
	for i--; i >= 0 && c.facts[i].seqs[0] >= from; i-- {
	}
	return i, true
}

// cellOf returns the cell of a kind that a version changes, or nil if it is not known.
func (h *past) cellOf(kind uint8, seq uint64) *cell {
	if kind == entryCell {
		return h.entryOf[seq]
	}
	n := h.nodeAt(seq)
	if n == nil {
		return nil
	}
	for n.goesOn != nil {
		n = n.goesOn
	}
	if kind == contentCell {
		return &n.content
	}
	return &n.meta
}

// nodeAt is what a version is of.
func (h *past) nodeAt(seq uint64) *node {
	if n := h.bySeq[seq]; n != nil {
		return n
	}
	v, err := h.m.view.Version(seq)
	if err != nil || v.Deleted() {
		return nil
	}
	if n := h.nodes[store.InodeOf(v.Stat)]; n != nil || v.Stat.Ino == 0 {
		return n
	}
	st := stateOf(v)
	n := h.newNode(st.kind(), store.InodeOf(v.Stat)) // it was gone before
	n.seen = true
	n.beginAs(st)
	h.nodes[n.in] = n
	return n
}

// changed enters what a version says of the content and the metadata of its node. fresh:
// it made the node.
func (h *past) changed(n *node, v *store.Version, st *state, fresh bool) {
	if !n.dir() {
		c := &n.content
		switch {
		case !c.known:
			c.known = true
			if !fresh && (v.Op == store.OpWrite || v.Op == store.OpTruncate) && !nobodys(v) {
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
			if cur := c.now().st; (v.Op == store.OpCreate && !fresh || v.Plan != "") && cur.mtime != st.mtime {
				c.facts = append(c.facts, fact{value: value{st: st}, v: v, seqs: []uint64{v.Seq}})
			}
		case v.Op != store.OpChmod || v.Plan != "": // that may tell of a content by which it was known before
			h.write(c, st, v)
		}
	}
	c := &n.meta
	switch {
	case !c.known:
		c.known = true
		if !fresh && v.Op == store.OpChmod && !nobodys(v) {
			c.base.unknown = true
			h.write(c, st, v)
		} else {
			c.base.st = st
		}
	default:
		h.write(c, st, v)
	}
	h.told(n, v)
}

// claimed enters who made a value that was found before its writer closed the file.
func (c *cell) claimed(v *store.Version) bool {
	last := len(c.facts) - 1
	if last < 0 || !c.facts[last].found || nobodys(v) {
		return false
	}
	f := &c.facts[last]
	f.v, f.found, f.seqs = v, false, append(f.seqs, v.Seq)
	return true
}

// write gives a content or metadata cell a value.
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
	c.facts = append(c.facts, fact{value: val, v: v, seqs: []uint64{v.Seq}, found: nobodys(v)})
}

// describe: a state says no more of a node's content than how it was found; what it says
// is entered.
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

// path is where a cell's entry, or a name of its node, is now; false: nowhere.
func (h *past) path(c *cell) (store.Path, bool) {
	if c.kind != entryCell {
		for _, at := range c.of.at {
			if p, ok := h.path(at); ok {
				return p, true
			}
		}
		return "", false
	}
	dir, ok := h.dirPath(c.dir)
	return join(dir, c.name), ok
}

// pathBefore is where an entry was before all that happened; false: nowhere.
func (h *past) pathBefore(c *cell) (store.Path, bool) {
	p := c.name
	for d := c.dir; d != h.root; {
		i := slices.IndexFunc(d.names, func(o *cell) bool { return o.base.node == d })
		if i < 0 || strings.Count(string(p), "/") > 4096 {
			return "", false
		}
		p, d = d.names[i].name+"/"+p, d.names[i].dir
	}
	return p, true
}

func (h *past) dirPath(n *node) (store.Path, bool) {
	name := store.Path("")
	for n != h.root {
		if len(n.at) == 0 {
			return "", false
		}
		name = joinBelow(n.at[0].name, name)
		n = n.at[0].dir
	}
	return name, true
}

func joinBelow(dir, name store.Path) store.Path {
	if name == "" {
		return dir
	}
	return dir + "/" + name
}

// title is the path by which a person knows a cell.
func (h *past) title(c *cell) store.Path {
	if c.title != "" {
		return c.title
	}
	title, ok := h.path(c)
	switch {
	case ok:
	case len(c.facts) > 0:
		title = c.facts[len(c.facts)-1].v.Path
	case c.kind != entryCell && len(c.of.names) > 0:
		title = h.title(c.of.names[len(c.of.names)-1])
	default:
		title = c.name
	}
	if h.whole {
		c.title = title
	}
	return title
}
