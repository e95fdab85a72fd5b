package undo

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cachebro/store"
)

// aim is the value that a cell should get.
type aim struct {
	c     *cell
	want  value
	made  bool   // want is a merge, comes from another machine, or is a node that the entry gets anew
	back  uint64 // the version that recorded the wanted value, or the wanted node; 0: none
	from  uint64 // the oldest version that is undone; 0: none
	took  uint64 // if made: the newest version that is undone; 0: none
	edits []int  // the edits of version took that are undone; nil: all
	part  bool   // single lines are left alone
}

type aims struct {
	h       *past
	of      map[*cell]*aim
	noStep  map[*cell]*aim // aims for cells that have the wanted value already, or whose node will not exist
	order   []*aim         // see sorted
	since   uint64         // the oldest version that is undone
	force   bool           // nodes that others have changed may be removed
	sel     func(*fact) bool
	dropped map[*cell]bool // cells that others have changed, or whose aim is impossible
	gone    []*aim         // aims for contents and metadata of nodes that will not exist, in order
	kept    map[*node]bool // nodes that stay because others have changed them
	undo    bool           // sel selects the facts to undo; if not set, it selects all facts after a moment
}

func newAims(h *past, since uint64, sel func(*fact) bool) *aims {
	return &aims{h: h, of: map[*cell]*aim{}, noStep: map[*cell]*aim{}, since: since, sel: sel, dropped: map[*cell]bool{}, kept: map[*node]bool{}}
}

func (a *aims) after(c *cell) value {
	if g := a.of[c]; g != nil {
		return g.want
	}
	return c.now()
}

// sorted returns the aims, ordered by the paths that the user knows.
func (a *aims) sorted() []*aim {
	if len(a.order) == len(a.of) && !slices.ContainsFunc(a.order, func(g *aim) bool { return a.of[g.c] != g }) {
		return a.order
	}
	a.order = slices.SortedFunc(maps.Values(a.of), func(x, y *aim) int {
		return cmp.Or(strings.Compare(string(a.h.title(x.c)), string(a.h.title(y.c))), cmp.Compare(x.c.kind, y.c.kind))
	})
	return a.order
}

// cells returns all cells with facts, ordered by path.
func (h *past) cells() (all []*cell) {
	add := func(c *cell) {
		if len(c.facts) > 0 {
			all = append(all, c)
		}
	}
	for _, n := range h.all {
		for _, c := range n.kids {
			add(c)
		}
		add(&n.content)
		add(&n.meta)
	}
	slices.SortFunc(all, func(x, y *cell) int {
		return cmp.Or(strings.Compare(string(h.title(x)), string(h.title(y))), cmp.Compare(x.kind, y.kind), compareSeq(x.facts[0].v.Seq, y.facts[0].v.Seq))
	})
	return all
}

// decide determines the value of each cell if the selected facts are undone.
func (m *maker) decide(h *past, since uint64, sel func(*fact) bool, q Query) *aims {
	a := newAims(h, since, sel)
	a.force, a.undo = q.Force, true
	h.chosen = sel
	var merged []*node
	asked, others := m.requestedCells(h), map[*cell][]problem{}
	cells, moved := h.cells(), map[*node]bool(nil)
	if m.requested != nil { // decide about entries before contents
		slices.SortStableFunc(cells, func(x, y *cell) int { return cmp.Compare(min(x.kind, contentCell), min(y.kind, contentCell)) })
	}
	for _, c := range cells {
		if c.kind != entryCell && moved == nil && m.requested != nil {
			moved = m.narrow(a, asked, others)
		}
		if c.kind != entryCell && !moved[c.of] && !m.everAt(h, c.of, asked) || !slices.ContainsFunc(c.facts, func(f fact) bool { return sel(&f) }) {
			continue
		}
		named := len(m.conflicts)
		g := m.without(h, c, sel, q)
		a.dropped[c] = len(m.conflicts) > named
		if c.kind == entryCell && !asked(c) {
			others[c] = slices.Clone(m.conflicts[named:])
			m.conflicts = m.conflicts[:named]
		}
		if g == nil {
			continue
		}
		if c.kind == entryCell && store.OwnFile(c.name) { // it exists only while a plan is carried out
			g.want, g.back = value{}, 0
		}
		if c.same(g.want, h.effectiveNow(c)) && !newTime(c, g.want) {
			a.noStep[c] = g
			continue
		}
		a.of[c], a.dropped[c] = g, false
		if g.made && c.kind == contentCell {
			merged = append(merged, c.of)
		}
	}
	if m.requested != nil && moved == nil {
		m.narrow(a, asked, others)
	}
	for _, n := range merged {
		m.withoutForeignRights(a, n)
	}
	a.lostRights()
	return a
}

// lostRights adds aims for the rights of files whose content the plan changes. Such an aim restores
// rights that earlier plans could not restore.
func (a *aims) lostRights() {
	for c := range maps.Clone(a.of) {
		if c.kind != contentCell || a.of[&c.of.meta] != nil {
			continue
		}
		meta := &c.of.meta
		last := len(meta.facts) - 1
		i := a.h.effective(meta, last)
		if want := meta.before(i + 1); i < last && meta.facts[i+1].v.Seq >= a.since && !meta.same(want, meta.now()) {
			a.of[meta] = &aim{c: meta, want: want, back: meta.seq(i + 1), from: meta.facts[i+1].seqs[0]}
		}
	}
}

// requestedCells returns a function that reports whether an entry is or was at a requested path.
func (m *maker) requestedCells(h *past) func(*cell) bool {
	known := map[*cell]bool{}
	return func(c *cell) bool {
		is, ok := known[c]
		if m.requested == nil || ok {
			return m.requested == nil || is
		}
		p, there := h.path(c)
		before, was := h.pathBefore(c)
		known[c] = there && m.requested(p) || was && m.requested(before) || slices.ContainsFunc(c.facts, func(f fact) bool { return m.requested(f.v.Path) })
		return known[c]
	}
}

// everAt reports whether a node is or was at one of the entries that asked selects. The root is at
// no entry.
func (m *maker) everAt(h *past, n *node, asked func(*cell) bool) bool {
	if n == h.root {
		return m.requested == nil || m.requested("")
	}
	return slices.ContainsFunc(n.names, asked) || slices.ContainsFunc(n.latest().names, asked)
}

// narrow removes the aims for entries that were not requested and that no requested entry needs. If
// a node moves to a needed entry, its present entries are needed as well. If a node loses all its
// names, the entries that should get it are needed. A requested file may be in a moved directory
// that was not requested. Then the file returns to its old path, not to the directory's present
// one. narrow returns the nodes that the remaining aims move.
func (m *maker) narrow(a *aims, asked func(*cell) bool, conflicts map[*cell][]problem) map[*node]bool {
	all, homes := a.of, map[*node][]*cell{}
	for c, g := range all {
		if n := g.want.node; n != nil {
			homes[n] = append(homes[n], c)
		}
	}
	out := map[*cell]store.Path{} // requested entries of directories that stay moved, with the old paths of their files
	inside := func(all []*cell) []*cell {
		return slices.DeleteFunc(slices.Clone(all), func(c *cell) bool { return out[c] != "" })
	}
	unasked := func(all []*cell) []*cell { return slices.DeleteFunc(slices.Clone(all), asked) }
	needed := map[*cell]bool{}
	for found := -1; found < len(out); {
		found = len(out)
		var todo []*cell
		for c := range all {
			if n := c.base.node; c.kind == entryCell && out[c] != "" {
				todo = append(todo, n.entries...)
			} else if c.kind == entryCell && asked(c) {
				todo = append(todo, c)
			}
		}
		clear(needed)
		for len(todo) > 0 {
			c := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			if needed[c] {
				continue
			}
			needed[c] = true
			if g := all[c]; g != nil {
				stays := func(o *cell) bool { return all[o] == nil || !needed[o] }
				if n := c.now().node; n != nil && !slices.ContainsFunc(n.entries, stays) {
					todo = append(todo, inside(homes[n])...)
					if len(homes[n]) == 0 { // the node is removed, after everything in it
						todo = slices.AppendSeq(todo, maps.Values(n.kids))
					}
				}
				if n := g.want.node; n != nil && out[c] == "" && len(homes[n]) == 1 { // otherwise the node gets an additional name
					todo = append(todo, n.entries...)
				}
			}
		}
		a.of = maps.Clone(all)
		maps.DeleteFunc(a.of, func(c *cell, _ *aim) bool { return c.kind == entryCell && !needed[c] })
		for c := range out {
			if a.of[c] != nil { // what is there now returns to its own place, and the file goes elsewhere
				a.of[c] = &aim{c: c, made: true}
			}
		}
		m.outOfMoved(a, out)
	}
	maps.DeleteFunc(a.noStep, func(c *cell, _ *aim) bool { return c.kind == entryCell && !needed[c] })
	for _, c := range a.h.cells() {
		if needed[c] {
			m.conflicts = append(m.conflicts, conflicts[c]...)
		}
	}
	paths := map[store.Path]*cell{}
	for c, p := range out {
		paths[p] = c
	}
	for _, p := range slices.Sorted(maps.Keys(paths)) { // parents first
		c := paths[p]
		n := c.base.node
		switch to := a.place(p, true); {
		case to == c:
			if g := all[c]; g != nil {
				a.of[c] = g
			}
		case to == nil:
			x := problem{Conflict: store.Conflict{Path: p, Why: "its directory was replaced by something else"}}
			if len(n.entries) > 0 && !n.dir() {
				x.stays = n
			}
			m.conflicts = append(m.conflicts, x)
			for _, at := range append(unasked(homes[n]), n.entries...) {
				delete(a.of, at)
			}
		case a.after(to).node == nil:
			a.of[to] = a.anew(to, n)
			if c.now().node == n {
				a.of[c] = &aim{c: c, made: true}
			}
		}
	}
	moved := map[*node]bool{}
	for c, g := range a.of {
		moved[c.now().node], moved[g.want.node] = true, true
	}
	return moved
}

// outOfMoved finds the requested entries in directories that stay moved, and the paths that these
// entries had.
func (m *maker) outOfMoved(a *aims, out map[*cell]store.Path) {
	h := a.h
	moved := map[*node]bool{} // directories that the selected facts moved
	for _, d := range h.all {
		for _, c := range d.names {
			if d.dir() && c.base.node == d && a.after(c).node != d && len(a.undoneFacts(c)) > 0 {
				moved[d] = true
			}
		}
	}
	if len(moved) == 0 {
		return
	}
	for _, d := range h.all {
		for _, c := range d.kids {
			n := c.base.node
			dirExists := n != nil && n.dir() && len(n.entries) > 0
			if n == nil || dirExists || a.after(c).node != n || out[c] != "" {
				continue
			}
			p, ok := h.pathBefore(c)
			asked := m.requested(p) || n.nlink < 2 && slices.ContainsFunc(append([]*cell{c}, n.entries...), func(at *cell) bool { // by any name
				is, there := h.path(at)
				return there && m.requested(is)
			})
			if c.now().node != n { // a name that a requested file gets back with its own
				asked = asked || slices.ContainsFunc(n.names, func(o *cell) bool {
					was, existed := h.pathBefore(o)
					return existed && o.base.node == n && m.requested(was)
				})
			}
			if ok && asked && slices.ContainsFunc(above(c), func(d *node) bool { return moved[d] }) {
				out[c] = p
			}
		}
	}
}

// above returns the parent directories of an entry before all facts.
func above(c *cell) (out []*node) {
	for d := c.dir; d != nil && len(out) < 4096; {
		out = append(out, d)
		i := slices.IndexFunc(d.names, func(o *cell) bool { return o.base.node == d })
		if i < 0 {
			break
		}
		d = d.names[i].dir
	}
	return out
}

// withoutForeignRights removes set-id bits and capabilities from a file that gets a content which
// never had them.
func (m *maker) withoutForeignRights(a *aims, n *node) {
	g := goal{path: a.h.title(&n.content), want: n.present()}
	g.want.mode = n.kind | a.after(&n.meta).st.perm()
	g.want.attrs = a.after(&n.meta).st.attrs
	if m.withoutNewRights(&g); !n.meta.same(value{st: &g.want}, a.after(&n.meta)) {
		g.want.owned = a.after(&n.meta).st.owned
		g.want.uid = a.after(&n.meta).st.uid
		g.want.gid = a.after(&n.meta).st.gid
		a.of[&n.meta] = &aim{c: &n.meta, want: value{st: &g.want}, made: true}
	}
}

// effectiveNow returns the value from which an undo starts. That is the value of the cell now, except for a
// node that no longer exists: a failed plan may have left another value than the one that counts.
func (h *past) effectiveNow(c *cell) value {
	if c.kind == entryCell || c.of == h.root || len(c.of.entries) > 0 {
		return c.now()
	}
	return c.before(h.effective(c, len(c.facts)-1) + 1)
}

// newTime reports whether a file has the wanted content but another modification time.
func newTime(c *cell, want value) bool {
	if c.kind != contentCell {
		return false
	}
	now := c.now().st
	kept := now.regular() && want.st.regular() && now.blob != (store.Hash{})
	return kept && want.st.mtime != 0 && want.st.mtime != now.mtime
}

// onlyTimes reports whether only the times of files differ from the aims.
func (a *aims) onlyTimes() bool {
	for c, g := range a.of {
		if !c.same(g.want, c.now()) {
			return false
		}
	}
	return true
}

// stretch is a series of consecutive facts of a cell that are all undone.
type stretch struct {
	left   value  // the value that they led to
	oldest int    // index of the oldest one
	before int    // index of the fact that set the value before them; -1: the base
	over   *fact  // the newest fact of others above it, up to the next stretch; nil: none
	newest bool   // there is no stretch above it
	took   uint64 // the newest selected version of the cell
}

// without returns the aim that undoes the selected facts of a cell, or nil if there is none. It
// undoes one stretch after the other, the newest first.
func (m *maker) without(h *past, c *cell, sel func(*fact) bool, q Query) *aim {
	g := &aim{c: c, want: c.now(), back: c.seq(len(c.facts))}
	r := stretch{newest: true, took: c.newest(sel)}
	for i := h.effective(c, len(c.facts)-1); i >= 0; {
		f := &c.facts[i]
		if !sel(f) {
			if r.over == nil {
				r.over = f
			}
			i = h.effective(c, i-1)
			continue
		}
		r.left = f.value
		onlyTime := true
		for i >= 0 && sel(&c.facts[i]) {
			onlyTime = onlyTime && c.same(c.facts[i].value, c.before(i))
			r.oldest, i = i, h.effective(c, i-1)
		}
		if q.Force && h.more(c, i, sel) {
			continue
		}
		r.before = i
		if c.facts[r.oldest].v.Plan != "" { // what counts is the value that the plan replaced, even if an earlier plan should have restored more
			r.before = r.oldest - 1
		}
		if r.over != nil && onlyTime {
			continue // somebody else has changed the time since
		}
		next := m.undoStretch(h, g, r, q)
		if next == nil {
			break
		}
		g = next
		r.newest, r.over = false, nil
	}
	if r.newest {
		if f := h.mergedBack(c, sel); f != nil && r.over != nil {
			m.conflictAt(h, c, store.Conflict{Why: fmt.Sprintf("this change is part of a merge that cachebro redo --plan %s would reverse; merged", f.v.Plan), Actor: f.v.Actor, Time: f.v.Time})
		}
		return nil
	}
	return g
}

// mergedBack returns the fact by which a redo restored selected facts and merged them with later
// changes of others, or nil if there is none. After such a merge, the selected facts cannot be
// undone on their own.
func (h *past) mergedBack(c *cell, sel func(*fact) bool) *fact {
	for i := h.effective(c, len(c.facts)-1); i >= 0; i = h.effective(c, i-1) {
		f := &c.facts[i]
		if f.v.Plan == "" {
			continue
		}
		r, _ := h.planCell(f.v.Plan, c)
		undone := slices.IndexFunc(c.facts, func(o fact) bool { return r.Made && slices.Contains(o.seqs, r.Took) })
		if undone < 0 || c.facts[undone].v.Plan == "" {
			continue
		}
		for j := undone - 1; j > h.effective(c, undone); j-- {
			if sel(&c.facts[j]) {
				return f
			}
		}
	}
	return nil
}

// more reports whether there are selected facts up to fact i.
func (h *past) more(c *cell, i int, sel func(*fact) bool) bool {
	for ; i >= 0; i = h.effective(c, i-1) {
		if sel(&c.facts[i]) {
			return true
		}
	}
	return false
}

// undoStretch returns the aim that undoes a stretch in addition to what g undoes. If the cell keeps the
// value of g because of others, it lists the conflict or loss and returns nil.
func (m *maker) undoStretch(h *past, g *aim, r stretch, q Query) *aim {
	c := g.c
	before := c.before(r.before + 1)
	if before.unknown {
		m.loseAt(h, c, unknownBefore(c.facts[0].v), 0)
		return nil
	}
	switch {
	case c.same(g.want, before) && !c.same(g.want, r.left): // somebody else has already given the cell this value
		return g
	case c.same(g.want, r.left), q.Force, r.newest && r.over == nil: // a plan may have restored the value without its rights
		return &aim{c: c, want: before, back: c.seq(r.before + 1), from: c.facts[r.oldest].seqs[0]}
	}
	merge := c.kind == contentCell && q.Merge && r.over != nil
	if merge {
		if st, ok := m.contents.mergeContents(*r.left.st, *before.st, *g.want.st); ok {
			return &aim{c: c, want: value{st: &st}, made: true, took: r.took}
		}
	}
	x := store.Conflict{Why: r.whyNot(g, merge)}
	if r.over != nil {
		x.Actor, x.Time = r.over.v.Actor, r.over.v.Time
	}
	m.conflictAt(h, c, x)
	return nil
}

// whyNot says why a stretch is not undone. merge tells whether merging failed.
func (r stretch) whyNot(g *aim, merge bool) string {
	switch {
	case merge:
		return "changed since, in the same lines"
	case !r.newest:
		return "somebody else changed it between two of these changes: --merge undoes both if their lines do not overlap; changed"
	case g.c.kind == entryCell && g.want.node == nil:
		return "deleted since"
	case g.c.kind == entryCell && r.left.node == nil:
		return "created again since"
	}
	return "changed since"
}

// effective returns the index of the fact that counts in place of fact i. If a plan restored the
// value of an earlier fact, the earlier fact counts, unless the plan's own fact is to be undone. -1
// means the base.
func (h *past) effective(c *cell, i int) int {
	for i >= 0 && (h.chosen == nil || !h.chosen(&c.facts[i])) {
		j := h.restoredFact(c, i)
		if j == i {
			break
		}
		i = j
	}
	return i
}

// restoredFact returns the index of the fact that fact i of a plan restored, or i.
func (h *past) restoredFact(c *cell, i int) int {
	f := &c.facts[i]
	if f.v.Plan == "" || !h.recordsCells(f.v.Plan) {
		return i
	}
	before := i - 1
	for before >= 0 && c.facts[before].v.Plan == f.v.Plan {
		before--
	}
	r, ok := h.planCell(f.v.Plan, c)
	if to, known := h.plannedFact(r, c, i); ok && known && h.restoredAs(c, c.before(to+1), f.value) {
		c.shareContent(to, f.st)
		return to
	}
	if !ok && c.kind != entryCell || c.same(c.before(before+1), f.value) {
		return before // the plan did not intend to change the cell, or a step failed
	}
	return i
}

// shareContent gives fact i (-1: the base) the content that was stored when a plan restored the
// fact's value. The fact's own content may have been pruned since.
func (c *cell) shareContent(i int, is *state) {
	st := c.base.st
	if i >= 0 {
		st = c.facts[i].st
	}
	if zero := (store.Hash{}); c.kind == contentCell && st.regular() && st.blob == zero && is.blob != zero {
		st.blob, st.noContent = is.blob, ""
	}
}

// restoredAs reports whether the value that a plan set, now, agrees with the value that it should
// restore, then. A missing file that cannot be made again counts as restored. The owner, attributes
// and set-id bits are ignored, because the user may not be allowed to set them.
func (h *past) restoredAs(c *cell, then, now value) bool {
	if c.kind == entryCell && then.node != nil && now.node == nil {
		why, _ := h.m.contents.cannotMake(then.node.present())
		return why != ""
	}
	if c.kind != metaCell || then.unknown {
		return c.same(then, now)
	}
	return then.st.link() || then.st.perm()&^setID == now.st.perm()&^setID
}
