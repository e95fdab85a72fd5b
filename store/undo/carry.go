package undo

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cachebro/store"
)

// carrier turns aims, the values that cells should get, into steps (see the package comment). It
// keeps the tree that results from the steps so far. Renames come first, because they need no
// content, keep the inode and move even files that nobody has read. Then come removals, deepest
// first, then new directories, then writes.
type carrier struct {
	*stepper
	a       *aims
	holds   map[*cell]*node   // changed entries, with the node that they hold now
	entries map[*node][]*cell // changed nodes, with the entries that hold them now
	states  map[*node]state   // changed nodes, with their present state
	busy    map[*cell]bool    // entries to which a node is being moved
	targets map[*node][]*cell // changing entries that each node should get
	// shutting holds directories that end without write or search permission, with their final
	// state.
	shutting map[*node]state
	aside    int
	err      error // from counting the files that move with a directory
}

func (m *maker) steps(a *aims, o *outcome) error {
	x := &carrier{
		stepper: &stepper{maker: m}, a: a,
		holds: make(map[*cell]*node, len(a.of)), entries: make(map[*node][]*cell, len(a.of)), states: make(map[*node]state, len(a.of)),
		busy: map[*cell]bool{}, shutting: map[*node]state{}, targets: make(map[*node][]*cell, len(a.of)),
	}
	all := a.sorted()
	for _, g := range all {
		if n := g.want.node; n != nil {
			x.targets[n] = append(x.targets[n], g.c)
		}
	}
	x.plan.Steps = slices.Grow(x.plan.Steps, len(x.targets))
	x.open(all, o)
	for _, g := range all {
		if g.want.node != nil {
			x.bring(g.c)
		}
	}
	x.removals()
	for _, g := range all {
		if n := g.want.node; n != nil && n.dir() {
			x.ensure(n)
		}
	}
	x.changeFiles(all)
	x.makeFiles(all)
	x.links(all)
	x.shut()
	x.returns(all)
	x.count()
	return x.err
}

func (x *carrier) held(c *cell) *node {
	if n, ok := x.holds[c]; ok {
		return n
	}
	return c.now().node
}

func (x *carrier) places(n *node) []*cell {
	if at, ok := x.entries[n]; ok {
		return at
	}
	return n.entries
}

// exists reports whether a node has a name at this point.
func (x *carrier) exists(n *node) bool {
	return n == x.a.h.root || slices.ContainsFunc(x.places(n), func(c *cell) bool { return x.exists(c.dir) })
}

func (x *carrier) state(n *node) state {
	if st, ok := x.states[n]; ok {
		return st
	}
	return n.present()
}

func (x *carrier) set(c *cell, n *node) {
	if was := x.held(c); was != nil {
		x.entries[was] = slices.DeleteFunc(slices.Clone(x.places(was)), func(o *cell) bool { return o == c })
	}
	x.holds[c] = n
	if n != nil {
		x.entries[n] = append(slices.Clone(x.places(n)), c)
	}
}

func (x *carrier) path(c *cell) store.Path {
	p := c.name
	for d := c.dir; d != x.a.h.root; {
		at := x.places(d)
		if len(at) == 0 {
			break
		}
		p, d = at[0].name+"/"+p, at[0].dir
	}
	return p
}

// dirPath returns the path of a directory that exists at this point.
func (x *carrier) dirPath(d *node) store.Path {
	if d == x.a.h.root {
		return ""
	}
	return x.path(x.places(d)[0])
}

// below reports whether directory d is n or in its subtree.
func (x *carrier) below(d, n *node) bool {
	for d != n {
		at := x.places(d)
		if len(at) == 0 {
			return false
		}
		d = at[0].dir
	}
	return true
}

// leaving returns a name that a node will lose, or nil.
func (x *carrier) leaving(n *node) *cell {
	for _, c := range x.places(n) {
		if x.a.after(c).node != n {
			return c
		}
	}
	return nil
}

// target returns an entry that a node should get and does not have yet, or nil.
func (x *carrier) target(n *node) *cell {
	var best *cell
	for _, c := range x.targets[n] {
		if x.held(c) != n && (best == nil || x.path(c) < x.path(best)) {
			best = c
		}
	}
	return best
}

// bring renames the wanted node of an entry to that entry, if the node exists and leaves another
// name. If two nodes wait for each other, it does nothing.
func (x *carrier) bring(c *cell) {
	n := x.a.after(c).node
	if n == nil || x.held(c) == n || !x.exists(n) {
		return
	}
	from := x.leaving(n)
	if from == nil || x.busy[c] { // without a name that it loses, the node gets an additional one
		return
	}
	x.busy[c] = true
	defer delete(x.busy, c)
	x.ensure(c.dir)
	for d := c.dir; n.dir() && x.below(c.dir, n); {
		// The destination is in the node's own subtree. First move one of the directories in
		// between elsewhere.
		if d == n {
			x.putAside(x.places(c.dir)[0])
			break
		}
		at := x.places(d)[0]
		if to := x.target(d); x.a.after(at).node != d && to != nil {
			x.bring(to)
			if x.held(at) != d { // another directory on the way may have to move, too
				d = c.dir
				continue
			}
			if x.below(c.dir, n) {
				x.putAside(at)
			}
			break
		}
		d = at.dir
	}
	if there := x.held(c); there != nil && there != n {
		to := x.target(there)
		aDir := there.dir() || n.dir()
		switch from = x.leaving(n); {
		case to == from && aDir && !x.below(c.dir, n) && !x.below(from.dir, there):
			x.exchange(from, c)
			return
		case to != nil && x.leaving(there) == c:
			x.bring(to)
		}
	}
	if x.held(c) != n { // otherwise an exchange has already brought it
		x.vacate(c)
	}
	from = x.leaving(n)
	if from != nil && x.held(c) != n {
		x.rename(from, c)
	}
}

// vacate removes the node of an entry, or puts it aside if it gets another name or does not become
// empty. Emptying a directory may already have put it aside, and another one may have its name now.
func (x *carrier) vacate(c *cell) {
	n := x.held(c)
	if n == nil {
		return
	}
	stays := x.target(n) != nil || n.dir() && !x.clear(n)
	switch {
	case x.held(c) != n:
	case stays:
		x.putAside(c)
	default:
		x.remove(c)
	}
}

// clear empties a directory that will be removed or renamed. It returns false if something stays in
// it.
func (x *carrier) clear(d *node) bool {
	for _, name := range slices.Sorted(maps.Keys(d.kids)) {
		c := d.kids[name]
		if n := x.held(c); n != nil && x.a.after(c).node == n {
			return false
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.kids)) {
		c := d.kids[name]
		n := x.held(c)
		if n == nil {
			continue
		}
		if to := x.target(n); to != nil {
			x.bring(to)
		}
		if x.held(c) != n {
			continue // it has moved
		}
		if x.target(n) != nil || n.dir() && !x.clear(n) {
			return false
		}
		if x.held(c) == n {
			x.remove(c)
		}
	}
	return x.empty(d)
}

func (x *carrier) empty(n *node) bool {
	for _, c := range n.kids {
		if x.held(c) != nil {
			return false
		}
	}
	return true
}

// putAside renames a node to an unused temporary name in the nearest directory that stays.
func (x *carrier) putAside(c *cell) {
	x.aside++
	dir := c.dir
	for dir != x.a.h.root && (x.leaving(dir) != nil || len(x.places(dir)) == 0) {
		if len(x.places(dir)) == 0 {
			dir = x.a.h.root
			break
		}
		dir = x.places(dir)[0].dir
	}
	x.rename(c, x.a.h.entry(dir, store.Path(fmt.Sprintf(".cachebro-aside-%d-%d~", x.plan.Seq, x.aside))))
}

func (x *carrier) moving(do string, from, to *cell) store.Step {
	n := x.held(from)
	have := x.state(n)
	st := expect(store.Step{Do: do, Path: x.path(from), To: x.path(to), Mode: have.mode}, have)
	if have.dir() {
		st.Ino, st.Below = have.in.Ino, x.filesBelow(n)
	} else if have.regular() && have.blob == (store.Hash{}) { // without a saved content, only the size and time identify the file
		st.Size, st.Mtime = have.size, have.mtime
	}
	return st
}

// filesBelow returns the number of files in a directory according to the history.
func (x *carrier) filesBelow(d *node) (n int) {
	p, there := x.a.h.dirPath(d)
	if !there {
		return 0
	}
	err := x.view.Live(p, func(v store.Version) error {
		if !stateOf(v).dir() {
			n++
		}
		return nil
	})
	x.err = errors.Join(x.err, err)
	return n
}

func (x *carrier) rename(from, to *cell) {
	x.add(x.moving(store.DoRename, from, to))
	n := x.held(from)
	x.set(from, nil)
	x.set(to, n)
}

// exchange swaps two entries, of which at least one is a directory.
func (x *carrier) exchange(a, b *cell) {
	if x.held(a).dir() {
		a, b = b, a // so that Path is the file, if there is one
	}
	st := x.moving(store.DoExchange, a, b)
	st.Below += x.filesBelow(x.held(b))
	x.add(st)
	na, nb := x.held(a), x.held(b)
	x.set(a, nil)
	x.set(b, na)
	x.set(a, nb)
}

// ensure makes a directory that should exist and does not.
func (x *carrier) ensure(d *node) {
	if x.exists(d) || !d.dir() {
		return
	}
	home := x.target(d)
	if home == nil {
		return
	}
	x.ensure(home.dir)
	if there := x.held(home); there != nil {
		if to := x.target(there); to != nil {
			x.bring(to)
		}
		if !x.exists(d) {
			x.vacate(home)
		}
		if x.exists(d) {
			return // nodes move from there into the new directory, so bring has made that directory
		}
	}
	w := x.a.whole(d)
	p := x.path(home)
	st := w.withOwner(store.Step{Do: store.DoMkdir, Path: p, Mode: w.mode | inAndOut, Expect: store.ExpectAbsent})
	x.add(st)
	x.set(home, d)
	have := w
	have.mode = st.Mode
	x.states[d] = have
	if st.Mode != w.mode {
		x.shutting[d] = w
	}
}

// removals deletes what must not exist, children before parents. It leaves out entries that a new
// file or link will replace.
func (x *carrier) removals() {
	type going struct {
		path store.Path
		c    *cell
	}
	var all []going
	add := func(c *cell) {
		n := x.held(c)
		want := x.a.after(c).node
		if n == nil || want == n || !x.exists(c.dir) {
			return
		}
		if want != nil && want.kind == n.kind && !n.dir() {
			return
		}
		all = append(all, going{x.path(c), c})
	}
	for c := range x.a.of {
		if c.kind == entryCell {
			add(c)
		}
	}
	for c := range x.holds {
		if x.a.of[c] == nil {
			add(c)
		}
	}
	slices.SortFunc(all, func(a, b going) int { return strings.Compare(string(b.path), string(a.path)) })
	for _, g := range all {
		x.remove(g.c)
	}
}

func (x *carrier) remove(c *cell) {
	n := x.held(c)
	have := x.state(n)
	do := store.DoDelete
	if have.dir() {
		do = store.DoRmdir
	} else if have.regular() && have.blob != (store.Hash{}) {
		x.countLater(write{len(x.plan.Steps), state{}, have})
	}
	x.add(expect(store.Step{Do: do, Path: x.path(c)}, have))
	x.set(c, nil)
}

// occupant returns the state of the node at an entry.
func (x *carrier) occupant(c *cell) state {
	if n := x.held(c); n != nil {
		return x.state(n)
	}
	return state{}
}

// makeFiles makes files and links that do not exist.
func (x *carrier) makeFiles(all []*aim) {
	for _, g := range all {
		n := g.want.node
		if n == nil || n.dir() || x.exists(n) {
			continue
		}
		have, w := x.occupant(g.c), x.a.whole(n)
		sameTime := w.mtime == have.mtime || !w.regular()
		if !have.absent() && have.nlink < 2 && w.equal(have) && sameTime {
			continue // it was made again as it was
		}
		x.write(x.path(g.c), have, w, !have.absent())
		x.set(g.c, n)
		w.nlink, w.in = 1, store.Inode{}
		x.states[n] = w
	}
}

// changeFiles changes contents and metadata.
func (x *carrier) changeFiles(all []*aim) {
	done := map[*node]bool{}
	for _, g := range all {
		n := g.c.of
		if g.c.kind == entryCell || done[n] {
			continue
		}
		done[n] = true
		if _, made := x.states[n]; made && !n.dir() || !x.exists(n) {
			continue
		}
		have, w := x.state(n), x.a.whole(n)
		if n.dir() && closed(w.mode) {
			x.shutting[n] = w
			continue
		}
		if n.dir() {
			x.write(x.dirPath(n), have, w, false)
			x.states[n] = w
			continue
		}
		c := x.places(n)[0]
		for _, o := range x.places(n) {
			// A name that is replaced later must not be written here, because the plan changes each
			// entry only once.
			if stays := x.a.after(o).node == n; stays && x.a.after(c).node != n || stays && x.path(o) < x.path(c) {
				c = o
			}
		}
		// Set-id bits and capabilities are given only to a new file, which then gets all names of
		// the old one.
		anew := w.needsNewFile(have) && have.nlink > 1 && int(have.nlink) == len(x.places(n)) && x.contents.has(w.blob)
		x.write(x.path(c), have, w, anew)
		x.states[n] = w
		for _, o := range x.places(n) {
			switch p := x.path(o); {
			case o == c:
			case anew && x.a.after(o).node != n: // it is replaced later and keeps the old file until then
				was := x.a.h.newNode(n.kind, have.in)
				x.states[was] = have
				x.set(o, was)
			case anew:
				x.add(expect(store.Step{Do: store.DoLink, Path: p, To: x.path(c), Blob: w.blob}, have))
			case x.requested != nil && !x.requested(p): // not requested, but the same file, so it changes as well
				x.add(expect(store.Step{Do: store.DoLink, Path: p, To: x.path(c), Blob: w.blob}, w))
			}
		}
	}
}

// links makes entries names of existing files.
func (x *carrier) links(all []*aim) {
	for _, g := range all {
		n := g.want.node
		if n == nil || n.dir() || x.held(g.c) == n || !x.exists(n) {
			continue
		}
		st := store.Step{Do: store.DoLink, Path: x.path(g.c), To: x.path(x.places(n)[0]), Blob: x.state(n).blob}
		x.add(expect(st, x.occupant(g.c)))
		x.set(g.c, n)
	}
}

// write adds a step that writes content, a link or a mode.
func (x *carrier) write(p store.Path, have, w state, apart bool) {
	if have.in == w.in && w.grants(have) && have.nlink < 2 && x.contents.has(w.blob) {
		apart = true
	}
	st := w.withOwner(store.Step{Path: p, Mode: w.mode, Mtime: w.mtime, Size: w.size, Apart: apart})
	switch {
	case w.sameContent(have) && !apart && !have.absent():
		if w.equal(have) && (w.mtime == 0 || w.mtime == have.mtime || !w.regular()) {
			return
		}
		st.Do = store.DoChmod
		st.Size = 0
		if !w.regular() || w.mtime == have.mtime {
			st.Mtime = 0
		}
	case w.link():
		st.Do, st.Target = store.DoSymlink, w.target
	default:
		st.Do, st.Blob = store.DoWrite, w.blob
		x.countLater(write{len(x.plan.Steps), w, have})
	}
	x.add(expect(st, have))
}

// open adds steps that make directories writable before something in them changes. Directories that
// should not be writable in the end are handled by shut.
func (x *carrier) open(all []*aim, o *outcome) {
	seen := map[*node]bool{}
	var dirs []*node
	up := func(d *node) {
		for !seen[d] {
			seen[d] = true
			if root := x.a.h.root; d == root && x.a.of[&root.meta] != nil { // the root's mode is recorded only before a change, so without an aim it may be unknown
				dirs = append(dirs, d)
			}
			if len(d.entries) == 0 {
				break
			}
			dirs = append(dirs, d)
			d = d.entries[0].dir
		}
	}
	for _, g := range all {
		if g.c.kind == entryCell {
			up(g.c.dir)
			continue
		}
		for _, c := range g.c.of.entries {
			up(c.dir)
		}
	}
	slices.SortFunc(dirs, func(a, b *node) int {
		return strings.Compare(string(x.dirPath(a)), string(x.dirPath(b)))
	})
	for _, d := range dirs {
		have, w := x.state(d), x.a.whole(d)
		if d.bare || !closed(have.mode) || !x.exists(d) {
			continue
		}
		p := x.dirPath(d)
		st := expect(store.Step{Do: store.DoChmod, Path: p, Mode: have.mode | inAndOut}, have)
		if o.has(d) && !closed(w.mode) {
			st.Mode = w.mode
			st = w.withOwner(st)
		}
		x.add(st)
		have.mode = st.Mode
		x.states[d] = have
		if o.has(d) {
			x.shutting[d] = w
		}
	}
}

// shut sets the final mode of directories that were made writable. It uses their final names.
func (x *carrier) shut() {
	type shut struct {
		path store.Path
		d    *node
	}
	var all []shut
	for d := range x.shutting {
		if x.exists(d) && !x.state(d).equal(x.shutting[d]) {
			all = append(all, shut{x.dirPath(d), d})
		}
	}
	slices.SortFunc(all, func(a, b shut) int { return strings.Compare(string(b.path), string(a.path)) })
	for _, s := range all {
		w := x.shutting[s.d]
		x.add(w.withOwner(store.Step{Do: store.DoChmod, Path: s.path, Mode: w.mode, ExpMode: x.state(s.d).mode}))
	}
}

// returns records in the plan which version's value each cell gets, and at which paths: under the
// names before the plan and those after it.
func (x *carrier) returns(all []*aim) {
	type cellAt struct {
		path store.Path
		kind uint8
	}
	told := make(map[cellAt]bool, len(x.targets))
	x.plan.Cells = slices.Grow(x.plan.Cells, len(all))
	x.plan.Returns = slices.Grow(x.plan.Returns, len(x.targets))
	for _, g := range x.a.gone {
		if !g.made && g.from != 0 {
			x.plan.Cells = append(x.plan.Cells, store.Cell{Kind: g.c.kind, Was: g.c.seq(len(g.c.facts)), Back: g.back, From: g.from, Gone: true})
		}
	}
	for _, g := range all {
		paths := []store.Path{x.a.h.title(g.c)}
		if g.c.kind == entryCell {
			paths = append(paths, x.path(g.c))
		} else {
			for _, c := range g.c.of.entries {
				paths = append(paths, x.a.h.title(c))
			}
			for _, c := range x.places(g.c.of) {
				paths = append(paths, x.path(c))
			}
		}
		if was := g.c.seq(len(g.c.facts)); was != 0 {
			x.plan.Cells = append(x.plan.Cells, store.Cell{Kind: g.c.kind, Was: was, Back: g.back, From: g.from, Made: g.made, Took: g.took})
		}
		for _, p := range paths {
			if at := (cellAt{p, g.c.kind}); !told[at] {
				told[at] = true
				x.plan.Returns = append(x.plan.Returns, x.returned(g, p))
			}
		}
	}
}

// returned describes what the plan does to a cell at one of its paths. The path may have lost a file when
// it led into another directory, so that the cell has no version and the path has one.
func (x *carrier) returned(g *aim, p store.Path) store.Return {
	r := store.Return{Path: p, Kind: g.c.kind, Was: g.c.seq(len(g.c.facts)), Back: g.back, Made: g.made, Took: g.took, Edits: g.edits, Part: g.part}
	if g.c.kind != entryCell {
		return r
	}
	if own := x.a.h.owns[p]; r.Was == 0 && len(own) > 0 && own[len(own)-1].Deleted() {
		r.Was = own[len(own)-1].Seq
	}
	if last := x.a.h.lastAt(p, g.from); r.Back == 0 && g.want.node == nil && last.Deleted() {
		r.Back = last.Seq
	}
	if r.Back != 0 { // the path gets a file that the history knows
		r.Made, r.Took = false, 0
	}
	return r
}
