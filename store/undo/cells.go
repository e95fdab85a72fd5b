package undo

import (
	"maps"
	"slices"
	"strings"

	"cachebro/store"

	"golang.org/x/sys/unix"
)

// node is a file, directory or symbolic link, independent of its names. It remains the same node if
// a save replaces its inode, if it is made again under its name, or if a plan restores it.
type node struct {
	kind        uint32 // type bits of st_mode
	in          store.Inode
	foreign     bool   // in is an inode number of another machine
	nlink       uint32 // according to the last version
	late        uint32 // how many of these names (0 or 1) it got at an excluded path since past.begun
	kids        map[store.Path]*cell
	entries     []*cell        // the entries that hold it now
	bare        bool           // a directory that is known only by its children
	made        *store.Version // the version that made it; Seq 0: it existed before
	seen        bool           // one of its versions was read
	names       []*cell        // all entries that ever held it
	continuesAs *node          // the older node that this one was merged into; nil: none
	strangers   uint32         // number of unknown names that it had when it was removed, before a plan restored it
	unseen      int            // number of content facts when it last lost its only known name and kept unknown ones, plus 1; 0: it never did

	content, meta cell
}

// latest returns the node that n was finally merged into, or n itself if it was never merged.
func (n *node) latest() *node {
	for n != nil && n.continuesAs != nil {
		n = n.continuesAs
	}
	return n
}

func (n *node) dir() bool { return n.kind == unix.S_IFDIR }

// value is what a cell holds.
type value struct {
	node    *node  // for an entry; nil: none
	st      *state // for a content or metadata
	unknown bool   // nobody saw the value
}

const (
	entryCell   = store.CellEntry
	contentCell = store.CellContent
	metaCell    = store.CellMeta
)

// cell is the smallest thing that has a value: an entry of a directory, the content of a node, or
// the metadata of a node.
type cell struct {
	kind  uint8
	dir   *node          // for an entry: the directory
	name  store.Path     // for an entry: the name
	title store.Path     // see past.title
	of    *node          // for a content or metadata: the node
	known bool           // a version records the value of the cell
	base  value          // value before all facts
	since uint64         // for an entry: the version that recorded base; 0: none
	found *store.Version // the version of the scan that found base; Seq 0: base was recorded earlier
	facts []fact
}

// noVersion and absent mean that there is no version and no file.
var (
	noVersion = &store.Version{}
	absent    state
)

// fact is a change of a cell's value.
type fact struct {
	value
	v           *store.Version // the version that recorded the change
	seqs        []uint64       // the numbers of all versions that recorded it
	found       bool           // found by a scan, so its author is unknown
	unversioned bool           // recorded by a plan and by no version
}

// seq returns the number of the version that recorded the value before fact i.
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

// before returns the value before fact i.
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
		if zero := (store.Hash{}); a.st.regular() && b.st.regular() && (a.st.blob == zero) != (b.st.blob == zero) { // the content of one was not read
			return a.st.size == b.st.size && (a.st.mtime == b.st.mtime || a.st.size == 0)
		}
		return a.st.sameContent(*b.st)
	}
	return a.st.sameMeta(*b.st)
}

// past is the history of some cells from version lo on.
type past struct {
	m       *maker
	lo      uint64
	whole   bool  // everything was read
	begun   int64 // time of the first version that was requested
	root    *node
	now     *outcome // the present tree, once computed
	nodes   map[store.Inode]*node
	bySeq   map[uint64]*node // the node of each version
	entryOf map[uint64]*cell // the entry that each version changes
	// excludedIn holds, for each version of an excluded path, the directory that the path was in.
	excludedIn map[uint64]*node
	plans      map[string]plannedCells // what plans record about cells, for plans looked up so far
	all        []*node
	sure       map[store.Path]bool // paths that were read
	owns       map[store.Path][]*store.Version
	leaving    map[arrival]*node // nodes that were renamed, by the new name
	chosen     func(*fact) bool  // selects the facts to undo; nil: none
}

// arrival identifies a rename by the new path and the time.
type arrival struct {
	path store.Path
	time int64
}

// cellsSince reads the history of paths, and of everything connected with them, from version lo on.
func (m *maker) cellsSince(paths []store.Path, lo uint64, known map[uint64]*store.Version) (*past, error) {
	var h *past
	var vs []*store.Version
	oldest := lo
	for {
		h = &past{
			m: m, lo: lo, nodes: make(map[store.Inode]*node, len(paths)), bySeq: make(map[uint64]*node, 2*len(paths)), entryOf: make(map[uint64]*cell, 2*len(paths)), excludedIn: map[uint64]*node{},
			plans: map[string]plannedCells{}, sure: make(map[store.Path]bool, len(paths)), owns: make(map[store.Path][]*store.Version, len(paths)),
			leaving: map[arrival]*node{},
		}
		h.root = h.bareDir()
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
	for _, p := range slices.Sorted(maps.Keys(h.owns)) {
		h.begin(p)
	}
	last := map[string]int{} // index of each plan's last version before the next plan began
	newest := ""
	for i, v := range vs {
		if _, begun := last[v.Plan]; v.Plan != "" && (!begun || v.Plan == newest) {
			newest = v.Plan
			last[newest] = i
		}
	}
	for i := range vs {
		h.apply(vs[i])
		if plan := vs[i].Plan; plan != "" && last[plan] == i {
			h.addPlanFacts(plan)
		}
	}
	more, err := h.unread()
	if err != nil {
		return nil, err
	}
	if len(more) > 0 {
		return m.cellsSince(append(slices.Clip(paths), more...), oldest, known)
	}
	h.whole = true
	for _, n := range h.all {
		for _, c := range n.entries {
			if p, ok := h.path(c); ok && !n.dir() {
				if own := h.owns[p]; len(own) > 0 && store.InodeOf(own[len(own)-1].Stat) == n.in {
					n.nlink, n.late = own[len(own)-1].Stat.Nlink, 0
				}
			}
		}
	}
	return h, nil
}

// unread returns the present paths of entries that exist but whose history was not read. The reason
// is that their directory was renamed several times, and the entry did not exist while the
// directory had one of its intermediate names.
func (h *past) unread() (paths []store.Path, err error) {
	for _, d := range h.all {
		for _, c := range d.kids {
			p, there := h.path(c)
			if !there || h.sure[p] || store.OwnFile(c.name) {
				continue
			}
			v, found, err := h.m.view.Current(p)
			if err != nil {
				return nil, err
			}
			if found && !v.Deleted() {
				paths = append(paths, p)
			}
		}
	}
	return paths, nil
}

// addPlanFacts adds the facts that a plan recorded but no version did. They concern the content and
// metadata of nodes that did not exist after the plan, and files in excluded directories.
func (h *past) addPlanFacts(plan string) {
	if !h.recordsCells(plan) {
		return
	}
	of, err := h.m.store.Journal.Head(plan)
	if err != nil {
		return
	}
	for c, r := range h.plans[plan].cells {
		to, known := h.plannedFact(r, c, len(c.facts))
		if !known || c.kind == entryCell || r.Gone && len(c.of.entries) > 0 {
			continue
		}
		want := c.before(to + 1)
		if !r.Gone && (c.same(want, c.now()) || !h.changedUnrecorded(&of, c)) {
			continue // nothing to add, or a step failed
		}
		seq := of.Seq + 1
		if last := len(c.facts) - 1; last >= 0 { // the facts are in the order of their numbers
			seq = max(seq, c.facts[last].seqs[0])
		}
		c.facts = append(c.facts, fact{
			value: want, seqs: []uint64{seq}, unversioned: true,
			v: &store.Version{Seq: c.seq(len(c.facts)), Time: of.Begun, Plan: plan, Path: h.title(c)},
		})
	}
}

// changedUnrecorded reports whether a plan changed the content or metadata of a file and no version
// recorded the change.
func (h *past) changedUnrecorded(of *store.Plan, c *cell) bool {
	p, there := h.path(c)
	recorded := func(v *store.Version) bool {
		renamed := v.Op == store.OpRename || v.Op == store.OpExchange // a rename from a temporary name gives the path a new file
		moved := renamed && !store.OwnFile(v.From) || v.Op == store.OpMoved
		return v.Plan == of.ID && !moved
	}
	if !there || c.of.dir() || slices.ContainsFunc(h.owns[p], recorded) {
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

// sinceOf looks up the plans that made the given versions, and returns the oldest version that was
// read to make one of these plans. Only if the history is read from that version on are nodes
// recognised as they were when the plan was made.
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

// read reads the histories of paths, of their parent directories, and of other names that their
// files and directories have had since. It always reads the history of the root, whose path is "".
// It returns the versions from lo on, in order.
func (h *past) read(paths []store.Path, known map[uint64]*store.Version) ([]*store.Version, error) {
	var vs []*store.Version
	h.sure[""] = true
	todo := map[store.Path]bool{"": true}
	want := func(p store.Path) {
		for p != "" && !h.sure[p] {
			h.sure[p], todo[p] = true, true
			p = p.Dir()
		}
	}
	for _, p := range paths {
		want(p)
	}
	moves, inodes := map[renaming]bool{}, map[store.Inode]bool{}
	traced, left := map[uint64]bool{}, map[store.Path][]*store.Version{} // left: the moves that remain to be traced, by the path to read first
	var trace func(own []*store.Version, i int)                          // reads where the file of version i was before
	trace = func(own []*store.Version, i int) {
		for _, v := range moversTo(own, i) {
			if traced[v.Seq] {
				continue
			}
			traced[v.Seq] = true
			want(v.From)
			if from, read := h.owns[v.From]; read {
				trace(from, beforeMove(from, v))
			} else {
				left[v.From] = append(left[v.From], v)
			}
		}
	}
	for len(todo) > 0 {
		next := slices.Sorted(maps.Keys(todo))
		todo = map[store.Path]bool{}
		var names []store.Inode
		err := h.m.view.Histories(next, known, func(p store.Path, own []*store.Version) error {
			h.owns[p] = own
			if i := indexOf(own, h.lo); lostSince(own, i) {
				trace(own, i-1)
			}
			for _, v := range left[p] {
				trace(own, beforeMove(own, v))
			}
			note := func(v *store.Version) { // Nlink is the present count, so even a file with one name may have had others
				if in := store.InodeOf(v.Stat); in.Ino != 0 && !stateOf(*v).dir() && !inodes[in] {
					inodes[in] = true
					names = append(names, in)
				}
			}
			for i, v := range own {
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
				if v.Stat.IsDir() && (v.Op == store.OpRename || v.Op == store.OpExchange) {
					moves[renaming{v.Time, v.From, p}] = true
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		linked, err := h.m.view.NamesOf(names)
		if err != nil {
			return nil, err
		}
		for _, p := range linked {
			want(p)
		}
		if len(todo) > 0 {
			continue
		}
		// Add the paths in a renamed directory under the directory's other name.
		for r := range moves {
			fromDir, fromName := split(r.from)
			toDir, toName := split(r.to)
			if fromName == toName && moves[renaming{r.time, fromDir, toDir}] {
				continue // a parent directory was renamed
			}
			for p, own := range h.owns {
				if len(own) == 0 {
					continue // nothing ever existed there
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

// lostSince reports whether the path with this history held a file at version lo and lost it since.
func lostSince(own []*store.Version, lo int) bool {
	return lo > 0 && slices.ContainsFunc(own[lo:], func(v *store.Version) bool { return v.Deleted() })
}

// indexOf returns the index of the first version in own whose number is at least seq.
func indexOf(own []*store.Version, seq uint64) int {
	i, _ := slices.BinarySearchFunc(own, seq, func(v *store.Version, seq uint64) int { return compareSeq(v.Seq, seq) })
	return i
}

// beforeMove returns the index of the last version of a path before a rename or exchange moved its
// file elsewhere; -1: none.
func beforeMove(own []*store.Version, v *store.Version) int {
	i := indexOf(own, v.Seq) - 1
	for i >= 0 && own[i].Time == v.Time {
		i--
	}
	return i
}

// moversTo returns the renames and exchanges by which a path may have got the file that it held at
// version i of its history, newest first. A plan may have moved the file back since, so past.read
// also reads the paths from which these operations moved it.
func moversTo(own []*store.Version, i int) (movers []*store.Version) {
	for ; i >= 0 && !own[i].Deleted(); i-- {
		v := own[i]
		if v.Op != store.OpRename && v.Op != store.OpExchange {
			continue
		}
		movers = append(movers, v)
		saved := v.Op == store.OpRename && v.Time-v.Stat.Birth <= saveTime // an atomic save, so the path held the same file before
		if !saved && !store.OwnFile(v.From) {
			break
		}
	}
	return movers
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

// beginAs sets the state of a node before all facts.
func (n *node) beginAs(st state) {
	n.content.known, n.content.base.st = true, &st
	n.meta.known, n.meta.base.st = true, &st
}

// entry returns the cell of a name in a directory.
func (h *past) entry(dir *node, name store.Path) *cell {
	c := dir.kids[name]
	if c == nil {
		c = &cell{kind: entryCell, dir: dir, name: name, found: noVersion}
		dir.kids[name] = c
	}
	return c
}

// resolve returns the cell of the path of a version, or nil if its directory does not exist.
func (h *past) resolve(v *store.Version) *cell {
	dir, p := h.root, v.Path
	for {
		name, rest, more := strings.Cut(string(p), "/")
		c := h.entry(dir, store.Path(name))
		if !more {
			return c
		}
		dir = c.now().node
		exists := dir != nil && dir.dir()
		switch {
		case !c.known:
			dir = h.bareDir()
			c.known, c.base.node = true, dir
			dir.entries, dir.names = append(dir.entries, c), append(dir.names, c)
		case !exists && h.provesDir(v, c):
			dir = h.bareDir()
			h.set(c, dir, v)
		case !exists:
			return nil
		}
		p = store.Path(rest)
	}
}

// bareDir makes a node for a directory without known versions.
func (h *past) bareDir() *node {
	n := h.newNode(unix.S_IFDIR, store.Inode{})
	n.bare, n.meta.base.st = true, &state{mode: unix.S_IFDIR | 0o755}
	return n
}

// provesDir reports whether c, an entry above the path of a version, must have got a directory that
// no version recorded. According to the history, c holds no directory. If an ignored directory is
// made while nothing is mounted, the first versions in it are those of files that are changed or
// removed later.
func (h *past) provesDir(v *store.Version, c *cell) bool {
	there := v.Op == store.OpBaseline || v.Op == store.OpWrite || v.Op == store.OpTruncate
	if !there || v.Seq <= c.seq(len(c.facts)) {
		return false
	}
	n := h.nodes[store.InodeOf(v.Stat)]
	return n == nil || len(n.entries) == 0
}

// lookup returns the cell of a path, or nil if nothing is known about it.
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

// begin sets the state of a path before version lo.
func (h *past) begin(p store.Path) {
	own := h.owns[p]
	i := -1
	for i+1 < len(own) && own[i+1].Seq < h.lo {
		i++
	}
	if i >= 0 && i+1 < len(own) && store.FoundNew(*own[i], *own[i+1]) { // a scan found it before its creation was recorded
		i--
	}
	if i < 0 {
		return
	}
	v := own[i]
	if p == "" {
		h.root.beginAs(stateOf(*v))
		h.bySeq[v.Seq] = h.root
		h.update(h.root, v)
		return
	}
	c := h.resolve(v)
	if c == nil || c.known {
		return
	}
	c.known, c.since = true, v.Seq
	h.entryOf[v.Seq] = c
	if v.Deleted() {
		return
	}
	n := h.nodeOf(v, c)
	h.bySeq[v.Seq] = n
	c.base.node = n
	n.entries, n.names = append(n.entries, c), append(n.names, c)
	if !n.seen {
		n.seen = true
		n.beginAs(stateOf(*v))
	} else {
		h.describe(n, stateOf(*v))
	}
	h.update(n, v)
}

// update updates a node with the fields that every version has.
func (h *past) update(n *node, v *store.Version) {
	if in := store.InodeOf(v.Stat); in.Ino != 0 {
		n.in, n.foreign = in, v.Foreign
		n.nlink, n.late = v.Stat.Nlink, 0
	}
	n.seen, n.bare = true, false
}

// nodeOf returns the node of a version.
func (h *past) nodeOf(v *store.Version, c *cell) *node {
	kind, in := stateOf(*v).kind(), store.InodeOf(v.Stat)
	cur := c.now().node
	if n := h.cameFrom(v); n != nil && n.kind == kind && h.nodes[in] == nil && n.incomparable(v) {
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
	if n := h.nodes[in]; n != nil && n.kind == kind && (n == cur || !n.hasOtherFile(in)) {
		return n
	}
	if cur != nil && cur.kind == kind && (cur.bare || cur.incomparable(v)) {
		h.nodes[in] = cur
		return cur
	}
	n := h.newNode(kind, in)
	h.nodes[in] = n
	return n
}

// hasOtherFile reports whether the node was removed and made again since its file had the given
// inode. If that file appears at another name, it had been moved to an unrecorded path, and is
// another node.
func (n *node) hasOtherFile(in store.Inode) bool {
	return n.in.Ino != 0 && n.in != in && len(n.entries) > 0 && !n.dir()
}

// incomparable reports whether inode numbers cannot show that a node and a version are the same
// file, because one of the numbers is unknown or from another machine.
func (n *node) incomparable(v *store.Version) bool {
	return n.in.Ino == 0 || v.Stat.Ino == 0 || n.foreign != v.Foreign
}

// cameFrom returns the node that a rename, an exchange or a link moved to a name, or nil if
// unknown. It is used for versions from another machine, whose inode numbers cannot be compared.
func (h *past) cameFrom(v *store.Version) *node {
	if n := h.leaving[arrival{v.Path, v.Time}]; n != nil {
		return n
	}
	if v.Op != store.OpLink && v.Op != store.OpExchange {
		return nil
	}
	c := h.lookup(v.From)
	switch {
	case c == nil:
		return nil
	case v.Seq >= h.lo:
		return c.now().node
	case v.Op == store.OpExchange || c.since > v.Seq: // at lo, the path v.From already held another file
		return nil
	}
	return c.base.node
}

// set sets the node of an entry, which may be nil.
func (h *past) set(c *cell, n *node, v *store.Version) {
	was := c.now().node
	if was == n {
		return
	}
	c.facts = append(c.facts, fact{value: value{node: n}, v: v, seqs: []uint64{v.Seq}, found: authorUnknown(v)})
	if was != nil && n != nil && v.Op != store.OpExchange { // the file that was there lost this name
		if last := h.lastAt(v.Path, v.Seq); !last.Deleted() && store.InodeOf(last.Stat) == was.in && last.Stat.Nlink > 0 {
			h.lostName(was, last.Stat.Nlink, last)
		}
	}
	if was != nil {
		was.entries = slices.DeleteFunc(was.entries, func(o *cell) bool { return o == c })
	}
	if n != nil {
		n.entries = append(n.entries, c)
		if !slices.Contains(n.names, c) {
			n.names = append(n.names, c)
		}
	}
}

// lostName records that a node lost one of its nlink names.
func (h *past) lostName(n *node, nlink uint32, last *store.Version) {
	n.nlink, n.late = max(nlink, 1)-1, 0
	if last.Linked >= h.begun && n.nlink > 0 {
		n.late = 1
	}
	if len(n.entries) <= 1 && n.strangeNames() > 0 {
		n.unseen = len(n.content.facts) + 1
	}
}

// strangeNames returns the number of unknown names that a node still had when it was removed. A
// name that it got at an excluded path since past.begun does not count, because no plan has to
// restore it.
func (n *node) strangeNames() uint32 { return n.nlink - n.late }

// changedUnseen reports whether the content of a file that lost its only known name, and kept unknown
// ones, was changed since by processes that nobody saw, and by no others.
func (n *node) changedUnseen() bool {
	c := &n.content
	if n.unseen == 0 || n.unseen > len(c.facts) {
		return false
	}
	since := c.facts[n.unseen-1:]
	authored := slices.ContainsFunc(since, func(f fact) bool { return !f.found })
	return !authored && !c.same(c.before(n.unseen-1), c.now())
}

// lastAt returns the newest version of a path before number seq, or Seq 0 if there is none.
func (h *past) lastAt(p store.Path, seq uint64) *store.Version {
	own := h.owns[p]
	if i := indexOf(own, seq); i > 0 {
		return own[i-1]
	}
	return noVersion
}

// path returns the present path of an entry or of a node's name, or false if there is none.
func (h *past) path(c *cell) (store.Path, bool) {
	if c.kind != entryCell {
		if c.of == h.root {
			return "", true
		}
		for _, at := range c.of.entries {
			if p, ok := h.path(at); ok {
				return p, true
			}
		}
		return "", false
	}
	dir, ok := h.dirPath(c.dir)
	return join(dir, c.name), ok
}

// pathBefore returns the path of an entry before all facts, or false if there is none.
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
		if len(n.entries) == 0 {
			return "", false
		}
		name = joinBelow(n.entries[0].name, name)
		n = n.entries[0].dir
	}
	return name, true
}

func joinBelow(dir, name store.Path) store.Path {
	if name == "" {
		return dir
	}
	return dir + "/" + name
}

// title returns the path by which the user knows a cell.
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
