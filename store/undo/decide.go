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
	made  bool   // want is a merge, or comes from another machine
	back  uint64 // the version whose value want is; 0: none
	from  uint64 // the oldest version that is undone; 0: none
	took  uint64 // for a merge: the newest version that is undone
	edits []int  // the edits of version took that are undone; nil: all
	part  bool   // single lines are left alone
}

// aims are the aims of a plan.
type aims struct {
	h       *past
	of      map[*cell]*aim
	order   []*aim // see sorted
	since   uint64 // the oldest version that is undone
	apart   bool   // a file may change under one of its names alone
	sel     func(*fact) bool
	dropped map[*cell]bool // cells whose aim is impossible
	gone    []*aim         // aims for contents and metadata of nodes that will not exist
	kept    map[*node]bool // nodes that stay because others have changed them
	redo    bool           // sel selects the facts of a plan
	undo    bool           // sel selects facts to be undone, and not all facts after a moment
}

// after returns the value of a cell after the plan.
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
	a := &aims{h: h, of: map[*cell]*aim{}, kept: map[*node]bool{}, dropped: map[*cell]bool{}, apart: q.Force, since: since, sel: sel, redo: q.Select.Plan != "", undo: true}
	var merged []*node
	asked, others := m.requestedCells(h), map[*cell][]store.Conflict{}
	cells, moved := h.cells(), map[*node]bool(nil)
	if m.requested != nil { // decide about entries before contents
		slices.SortStableFunc(cells, func(x, y *cell) int { return cmp.Compare(min(x.kind, contentCell), min(y.kind, contentCell)) })
	}
	for _, c := range cells {
		if c.kind != entryCell && moved == nil && m.requested != nil {
			moved = m.narrow(a, asked, others)
		}
		if c.kind != entryCell && !moved[c.of] && !c.of.everAt(asked) || !slices.ContainsFunc(c.facts, func(f fact) bool { return sel(&f) }) {
			continue
		}
		var g *aim
		named := len(m.plan.Conflicts)
		if q.Select.Plan != "" {
			g = m.takenBack(h, c, sel, q)
		} else {
			g = m.without(h, c, sel, q)
		}
		if c.kind == entryCell && !asked(c) {
			others[c] = slices.Clone(m.plan.Conflicts[named:])
			m.plan.Conflicts = m.plan.Conflicts[:named]
		}
		if g == nil {
			continue
		}
		if c.kind == entryCell && store.OwnFile(c.name) { // it exists only while a plan is carried out
			g.want, g.back = value{}, 0
		}
		if g.c.same(g.want, c.now()) && !newTime(c, g.want) {
			continue
		}
		a.of[c] = g
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

// lostRights adds aims for the rights of files whose content changes. These are rights that the
// files had before and that plans since then could not restore.
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

// everAt reports whether a node is or was at one of the entries that some selects.
func (n *node) everAt(some func(*cell) bool) bool {
	return slices.ContainsFunc(n.names, some) || slices.ContainsFunc(n.latest().names, some)
}

// narrow removes the aims for entries that were not requested and that no requested entry needs. If
// a node moves to a needed entry, its present entries are needed as well. If a node loses all its
// names, the entries that should get it are needed. A requested file may be in a moved directory
// that was not requested. Then the file returns to its old path, not to the directory's present
// one. narrow returns the nodes that the remaining aims move.
func (m *maker) narrow(a *aims, asked func(*cell) bool, conflicts map[*cell][]store.Conflict) map[*node]bool {
	all, homes := a.of, map[*node][]*cell{}
	for c, g := range all {
		if n := g.want.node; n != nil {
			homes[n] = append(homes[n], c)
		}
	}
	out := map[*cell]store.Path{} // requested entries of directories that stay moved, with the paths for their files
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
			if needed[c] || out[c] != "" {
				continue
			}
			needed[c] = true
			if g := all[c]; g != nil {
				stays := func(o *cell) bool { return all[o] == nil || !needed[o] }
				if n := c.now().node; n != nil && !slices.ContainsFunc(n.entries, stays) {
					todo = append(todo, homes[n]...)
					if len(homes[n]) == 0 { // it is removed, after everything in it
						todo = slices.AppendSeq(todo, maps.Values(n.kids))
					}
				}
				if n := g.want.node; n != nil && len(homes[n]) == 1 { // otherwise it gets an additional name
					todo = append(todo, n.entries...)
				}
			}
		}
		a.of = maps.Clone(all)
		maps.DeleteFunc(a.of, func(c *cell, _ *aim) bool { return c.kind == entryCell && !needed[c] })
		m.outOfMoved(a, out)
	}
	for _, c := range a.h.cells() {
		if needed[c] {
			m.plan.Conflicts = append(m.plan.Conflicts, conflicts[c]...)
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
			why := "its directory was replaced by something else"
			if is, there := a.h.path(&n.content); there && !n.dir() {
				why += fmt.Sprintf("; %q stays", string(is))
			}
			m.conflict(store.Conflict{Path: p, Why: why})
			for _, at := range n.entries {
				delete(a.of, at)
			}
		case a.after(to).node == nil:
			a.of[to] = &aim{c: to, want: value{node: n}, made: true}
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
			if n == nil || n.dir() && len(n.entries) > 0 || a.after(c).node != n || out[c] != "" {
				continue
			}
			p, ok := h.pathBefore(c)
			asked := m.requested(p) || n.nlink < 2 && slices.ContainsFunc(append([]*cell{c}, n.entries...), func(at *cell) bool { // by any name
				is, there := h.path(at)
				return there && m.requested(is)
			})
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
		g.want.owned, g.want.uid, g.want.gid = a.after(&n.meta).st.owned, a.after(&n.meta).st.uid, a.after(&n.meta).st.gid
		a.of[&n.meta] = &aim{c: &n.meta, want: value{st: &g.want}, made: true}
	}
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

// takenBack undoes the facts of a plan on a cell. Their result must still be there.
func (m *maker) takenBack(h *past, c *cell, sel func(*fact) bool, q Query) *aim {
	first, last := -1, -1
	var over *fact
	for i := range c.facts {
		f := &c.facts[i]
		if sel(f) {
			last = i
			if first < 0 {
				first = i
			}
			over = nil
		} else if over == nil || f.v.Plan == "" {
			over = f
		}
	}
	return m.run(h, c, c.facts[last].value, c.before(first), over, first-1, first, &aim{c: c, want: c.now(), back: c.seq(len(c.facts))}, true, sel, q)
}

// without undoes the selected facts of a cell, beginning with the newest run of them.
func (m *maker) without(h *past, c *cell, sel func(*fact) bool, q Query) *aim {
	g := &aim{c: c, want: c.now(), back: c.seq(len(c.facts))}
	var over *fact
	took := false
	for i := h.effective(c, len(c.facts)-1); i >= 0; {
		f := &c.facts[i]
		if !sel(f) {
			if over == nil {
				over = f
			}
			i = h.effective(c, i-1)
			continue
		}
		left, oldest := f.value, i
		for i >= 0 && sel(&c.facts[i]) {
			oldest, i = i, h.effective(c, i-1)
		}
		was := c.base
		if i >= 0 {
			was = c.facts[i].value
		}
		if q.Force && h.more(c, i, sel) {
			continue
		}
		next := m.run(h, c, left, was, over, i, oldest, g, !took, sel, q)
		if next == nil {
			break
		}
		g, took, over = next, true, nil
	}
	if !took {
		if f := h.mergedBack(c, sel); f != nil && over != nil {
			m.conflict(store.Conflict{Path: h.title(c), Why: fmt.Sprintf("brought back in a merge, which cachebro redo --plan %s takes back; merged", f.v.Plan), Actor: f.v.Actor, Time: f.v.Time})
		}
		return nil
	}
	return g
}

// mergedBack returns the fact by which a redo restored selected facts, merged with later changes of
// others. None of the selected facts then counts alone. It returns nil if there is no such fact.
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

// run decides about one run of facts, the oldest of which has index oldest. left is their result, and
// was is the value before them. below is the index of the fact that set it; -1 is the base. Plans may
// have set it again between below and oldest. If the cell stays unchanged, run lists the conflict or
// loss and returns nil.
func (m *maker) run(h *past, c *cell, left, was value, over *fact, below, oldest int, g *aim, newest bool, sel func(*fact) bool, q Query) *aim {
	back, from := c.seq(below+1), c.facts[oldest].seqs[0]
	if was.unknown {
		m.loseUnknown(h, c)
		return nil
	}
	switch {
	case c.same(g.want, was) && !c.same(g.want, left): // somebody else made it so, at their time
		return &aim{c: c, want: g.want, back: back, from: from}
	case c.same(g.want, left), q.Force, newest && over == nil: // a plan may have restored it without its rights
		return &aim{c: c, want: was, back: back, from: from}
	}
	why := "changed since"
	if c.kind == contentCell && q.Merge && over != nil {
		if st, ok := m.contents.mergeContents(*left.st, *was.st, *g.want.st); ok {
			return &aim{c: c, want: value{st: &st}, made: true, took: c.newest(sel)}
		}
		why = "changed since, in the same lines"
	} else if !newest {
		why = "somebody else changed it between two of these changes: --merge undoes both if their lines do not overlap; changed"
	} else if c.kind == entryCell {
		switch {
		case g.want.node == nil:
			why = "deleted since"
		case left.node == nil:
			why = "made again since"
		}
	}
	x := store.Conflict{Path: h.title(c), Why: why}
	if over != nil {
		x.Actor, x.Time = over.v.Actor, over.v.Time
	}
	m.conflict(x)
	return nil
}

// loseUnknown lists a cell as lost because nobody saw its value before the first change.
func (m *maker) loseUnknown(h *past, c *cell) {
	first := *c.facts[0].v
	first.Path = h.title(c)
	m.loseBefore(first)
	m.lost[len(m.lost)-1].of = c.of
}

// effective returns the index of the fact that counts in place of fact i. If a plan restored the
// value of an earlier fact, the earlier fact counts. -1 is the base.
func (h *past) effective(c *cell, i int) int {
	for i >= 0 {
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

// markUndone marks the facts of plans that a later plan has undone, unless that plan was undone
// itself.
func (h *past) markUndone() {
	for _, c := range h.cells() {
		for i := len(c.facts) - 1; i >= 0; {
			to := h.restoredFact(c, i)
			for j := to + 1; j < i; j++ {
				c.facts[j].undone = c.facts[j].v.Plan != c.facts[i].v.Plan
			}
			if to == i {
				to--
			}
			i = to
		}
	}
}

// shareContent gives fact i (-1: the base) the stored content that a plan restored from it. The
// fact's own content may have been pruned since.
func (c *cell) shareContent(i int, is *state) {
	st := c.base.st
	if i >= 0 {
		st = c.facts[i].st
	}
	if zero := (store.Hash{}); c.kind == contentCell && st.regular() && st.blob == zero && is.blob != zero {
		st.blob, st.noContent = is.blob, ""
	}
}

// restoredAs reports whether a plan that should restore the value then has restored it as now. It
// ignores the owner, attributes and set-id bits, which the user may not be allowed to set, and files
// that could not be made again.
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

// --- what can be reached -----------------------------------------------------------------

// outcome is the tree after a plan.
type outcome struct {
	places map[*node][]*cell // entries of each node that is reachable from the root
}

func (a *aims) outcome() *outcome {
	o := &outcome{places: make(map[*node][]*cell, len(a.h.all))}
	o.places[a.h.root] = nil
	todo := []*node{a.h.root}
	for len(todo) > 0 {
		d := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, c := range d.kids {
			n := a.after(c).node
			if n == nil {
				continue
			}
			_, seen := o.places[n]
			o.places[n] = append(o.places[n], c)
			if n.dir() && !seen {
				todo = append(todo, n)
			}
		}
	}
	return o
}

func (o *outcome) has(n *node) bool { _, ok := o.places[n]; return ok }

// presently returns the present tree.
func (h *past) presently() *outcome {
	if h.now == nil {
		h.now = (&aims{h: h}).outcome()
	}
	return h.now
}

// pathIn returns the path of an entry in the tree o, or the path that the user knows if the entry
// is not in o.
func (a *aims) pathIn(o *outcome, c *cell) store.Path {
	p := c.name
	for d := c.dir; d != a.h.root; {
		at := o.places[d]
		if len(at) == 0 {
			return a.h.title(c)
		}
		p, d = at[0].name+"/"+p, at[0].dir
	}
	return p
}

// threatened returns the nodes whose content the aims would destroy.
func (a *aims) threatened(o *outcome) []*node {
	var out []*node
	seen := map[*node]bool{}
	for _, g := range a.sorted() {
		n := g.c.of
		switch {
		case g.c.kind == contentCell && len(n.entries) > 0:
		case g.c.kind == entryCell:
			n = g.c.now().node
			if n == nil || n.dir() || o.has(n) {
				continue
			}
		default:
			continue
		}
		if !seen[n] {
			seen[n] = true
			out = append(out, n)
		}
	}
	return out
}

// refusal returns why a content must not be destroyed, or "" if it may be.
func (m *maker) refusal(h *past, n *node) string {
	st := *n.content.now().st
	if n.content.now().unknown || !m.contents.missing(st) {
		return ""
	}
	why := m.contents.whyNotStored(st)
	if why == "" && m.show {
		return ""
	}
	if why == "" {
		p, _ := h.path(&n.content)
		why = cmp.Or(m.unsafe[p], st.noContent)
	}
	return "its present content could not be restored later" + strings.TrimSuffix(" ("+why+")", " ()") + ": move or delete it yourself"
}

// whole returns the content and metadata of a node after the plan.
func (a *aims) whole(n *node) state {
	of := func(c *cell) state {
		if !a.undo || a.of[c] != nil || len(n.entries) > 0 {
			return *a.after(c).st
		}
		// Ignore what a failed plan has left of it.
		return *c.before(a.h.effective(c, len(c.facts)-1) + 1).st
	}
	return joined(of(&n.content), of(&n.meta), n)
}

// present returns the present content and metadata of a node.
func (n *node) present() state { return joined(*n.content.now().st, *n.meta.now().st, n) }

func joined(content, meta state, n *node) state {
	st := content
	if n.dir() || st.absent() {
		st = meta
	}
	st.mode = n.kind | meta.perm()
	st.owned, st.uid, st.gid, st.attrs = meta.owned, meta.uid, meta.gid, meta.attrs
	st.in, st.nlink = n.in, n.nlink
	return st
}

// reachable drops impossible aims and adds aims for directories that are needed, until the result
// is a tree. It lists what it drops as conflict or lost.
func (m *maker) reachable(a *aims) (*outcome, error) {
	now := a.h.presently()
	for {
		o := a.outcome()
		dropped, err := m.unreachable(a, now, o)
		if err != nil || !dropped {
			return o, err
		}
	}
}

func (m *maker) unreachable(a *aims, now, o *outcome) (changed bool, err error) {
	h := a.h
	drop := func(g *aim, why string) {
		delete(a.of, g.c)
		a.dropped[g.c] = true
		changed = true
		if why != "" {
			m.conflict(store.Conflict{Path: h.title(g.c), Why: why})
		}
	}
	var below []*node // nodes in directories that will not exist, for which these may stay
	for _, n := range h.all {
		if n.placedBy(a) {
			below = append(below, n)
			continue
		}
		kept, err := m.endangered(a, n, now, o)
		if err != nil {
			return changed, err
		}
		changed = kept || changed
	}
	for _, n := range below {
		if changed {
			return true, nil
		}
		if a.kept[n] {
			continue // its new place shows below
		}
		changed, err = m.endangered(a, n, now, o)
		if err != nil {
			return changed, err
		}
	}
	if changed {
		return true, nil
	}
	keeps := false // a directory stays after all, with what is in it
	for _, g := range a.sorted() {
		if a.of[g.c] != g || g.c.kind != entryCell {
			continue
		}
		n, was := g.want.node, g.c.now().node
		if n != nil {
			if !o.has(g.c.dir) {
				if keeps {
					continue
				}
				switch home := m.homeOf(a, g.c.dir); {
				case a.restoresDir(g.c.dir): // the parent directory is restored as well
				case home != nil && a.after(home).node == nil && !a.dropped[home]:
					a.of[home] = home.again(g.c.dir)
					changed = true
				default:
					drop(g, "its directory was replaced by something else")
				}
				continue
			}
			if !now.has(n) {
				if why, size := m.contents.cannotMake(a.whole(n)); why != "" {
					m.lost = append(m.lost, lost{Conflict: store.Conflict{Path: a.pathIn(o, g.c), Why: why}, size: size})
					drop(g, "")
					if slices.ContainsFunc(o.places[was], func(c *cell) bool { return c.now().node != was }) {
						a.of[g.c] = &aim{c: g.c, back: g.back, from: g.from} // what is there moves to its own place all the same
					}
					continue
				}
			}
			if len(o.places[n]) > 1 && (n.dir() || a.undo && a.movedOn(g.c, n)) {
				drop(g, "it is elsewhere now")
				continue
			}
			if !o.has(n) {
				drop(g, "it would be in its own subtree")
				continue
			}
		}
		if was == nil || was == n || o.has(was) {
			continue
		}
		if was.dir() {
			stays, _, err := m.remaining(a, was)
			if err != nil {
				return changed, err
			}
			if stays {
				drop(g, "the directory holds other files")
				keeps = true
			}
			continue
		}
		if why := m.refusal(h, was); why != "" {
			drop(g, why)
		}
	}
	if changed {
		return true, nil
	}
	for _, g := range a.sorted() {
		if g.c.kind != entryCell && a.of[g.c] == g {
			m.unreachableValue(a, g, now, o, drop)
		}
	}
	return changed, nil
}

// placedBy reports whether an entry holds the node after the plan, perhaps in a directory that will
// not exist.
func (n *node) placedBy(a *aims) bool {
	return slices.ContainsFunc(n.names, func(c *cell) bool { return a.after(c).node == n })
}

// movedOn reports whether an undone rename took this name from a file and gave the file another
// one, which somebody else has taken from it since.
func (a *aims) movedOn(c *cell, n *node) bool {
	for i := range c.facts {
		f := &c.facts[i]
		if c.before(i).node != n || !a.sel(f) {
			continue
		}
		for _, to := range n.names {
			at := slices.IndexFunc(to.facts, func(o fact) bool { return o.node == n && o.v.Time == f.v.Time }) + 1
			if at > 0 && at < len(to.facts) && to.now().node != n && !a.sel(&to.facts[at]) {
				return true
			}
		}
	}
	return false
}

// again returns the aim that gives an entry the node n, which it held before.
func (c *cell) again(n *node) *aim {
	for i := len(c.facts) - 1; i >= 0; i-- {
		if c.before(i).node == n {
			return &aim{c: c, want: value{node: n}, back: c.seq(i), from: c.facts[i].seqs[0]}
		}
	}
	return &aim{c: c, want: value{node: n}, made: true}
}

// endangered handles a node that would not exist after the plan, although others have changed it
// since the undone actor made it. The node stays where it was made, if that entry is free. It is
// listed as a conflict, except for a directory that stays only for what others put into it.
// endangered returns true if it changed the aims.
func (m *maker) endangered(a *aims, n *node, now, o *outcome) (changed bool, err error) {
	if n == a.h.root || n.continuesAs != nil || o.has(n) {
		return false, nil
	}
	places, undone := a.placed(n)
	if !undone || !now.has(n) && !a.removed(n) {
		return false, nil
	}
	f, others := m.keptBy(a, n), false
	if n.dir() && now.has(n) {
		_, others, err = m.remaining(a, n)
		if err != nil {
			return false, err
		}
	}
	if f == nil && !others || a.apart && !n.dir() {
		return false, nil
	}
	if f != nil && !a.kept[n] {
		m.conflict(store.Conflict{Path: a.h.title(places[0]), Why: "changed since", Actor: f.v.Actor, Time: f.v.Time})
	}
	if !a.kept[n] {
		a.kept[n] = true
		for _, c := range places {
			if a.after(c).node != nil {
				continue
			}
			if delete(a.of, c); c.now().node != n {
				a.of[c] = c.again(n)
			}
			return true, nil
		}
	}
	for c, g := range a.of {
		if c.kind == entryCell && c.now().node == n && g.want.node != n {
			delete(a.of, c)
			changed = true
			if f == nil {
				m.conflict(store.Conflict{Path: a.h.title(c), Why: "the directory holds other files"})
			}
		}
	}
	return changed, nil
}

// undoneFacts returns the facts of a cell that are undone, newest first. For an undo, facts that are
// already undone are left out.
func (a *aims) undoneFacts(c *cell) (out []*fact) {
	for i := len(c.facts) - 1; i >= 0; i-- {
		if a.undo && !a.redo {
			i = a.h.effective(c, i)
			if i < 0 {
				break
			}
		}
		if a.sel(&c.facts[i]) {
			out = append(out, &c.facts[i])
		}
	}
	return out
}

// placed returns the entries that ever held a node: first those that an undo takes it from, oldest
// first, then the others, newest first. undone is true if the undone facts gave it an entry.
func (a *aims) placed(n *node) (out []*cell, undone bool) {
	type place struct {
		c   *cell
		seq uint64
	}
	var given, other []place
	for _, c := range n.names {
		for _, f := range a.undoneFacts(c) {
			if f.node == n {
				given = append(given, place{c, f.v.Seq})
			}
		}
		if c.base.node == n {
			other = append(other, place{c, c.since})
		}
		for _, f := range c.facts {
			if f.node == n {
				other = append(other, place{c, f.v.Seq})
			}
		}
	}
	undone = len(given) > 0
	slices.SortFunc(given, func(x, y place) int { return compareSeq(x.seq, y.seq) })
	slices.SortFunc(other, func(x, y place) int { return compareSeq(y.seq, x.seq) })
	if !a.undo {
		given = nil
	}
	for _, p := range append(given, other...) {
		out = append(out, p.c)
	}
	return out, undone
}

// removed reports whether the undone facts removed the last name of a node.
func (a *aims) removed(n *node) bool {
	var last *fact
	for _, c := range n.names {
		for i := a.h.effective(c, len(c.facts)-1); i >= 0; i = a.h.effective(c, i-1) {
			if c.before(i).node != n {
				continue
			}
			if last == nil || c.facts[i].v.Seq > last.v.Seq {
				last = &c.facts[i]
			}
			break
		}
	}
	return last != nil && a.sel(last)
}

// restoresDir reports whether an aim restores a directory to an entry.
func (a *aims) restoresDir(d *node) bool {
	for _, g := range a.of {
		if g.c.kind == entryCell && g.want.node == d {
			return true
		}
	}
	return false
}

// homeOf returns a free entry to which a directory is restored, or nil if there is none. If paths
// were requested, it is the entry before the undone facts.
func (m *maker) homeOf(a *aims, d *node) *cell {
	if m.requested != nil {
		for _, c := range d.names {
			if c.base.node == d {
				return c
			}
		}
	}
	places, _ := a.placed(d)
	for _, c := range places {
		if a.after(c).node == nil && !a.dropped[c] {
			return c
		}
	}
	return nil
}

// keptBy returns the newest change that somebody else made to a node after the undone facts placed
// it, or nil if there is none.
func (m *maker) keptBy(a *aims, n *node) *fact {
	placed := ^uint64(0)
	for _, c := range n.names {
		for _, f := range a.undoneFacts(c) {
			if f.node == n {
				placed = min(placed, f.v.Seq)
			}
		}
	}
	if made := n.made.Seq; made != 0 && a.sel(&fact{v: n.made, seqs: []uint64{made}}) {
		placed = min(placed, made)
	}
	for _, c := range []*cell{&n.content, &n.meta} {
		i := a.h.effective(c, len(c.facts)-1)
		for i >= 0 && a.sel(&c.facts[i]) {
			i = a.h.effective(c, i-1)
		}
		if i < 0 {
			continue
		}
		if f := &c.facts[i]; f.v.Seq > placed && !f.found && f.v.Plan == "" {
			return f
		}
	}
	return nil
}

// remaining reports whether something remains in a directory that should be removed. others is true
// if somebody else put it there.
func (m *maker) remaining(a *aims, d *node) (stays, others bool, err error) {
	for _, c := range d.kids {
		if n := a.after(c).node; n != nil {
			stays = true
			i := a.h.effective(c, len(c.facts)-1)
			others = others || i >= 0 && !a.sel(&c.facts[i]) && !c.facts[i].found || n.dir()
		}
	}
	p, ok := a.h.dirPath(d)
	if !ok {
		return stays, others, nil
	}
	err = m.view.Live(p, func(v store.Version) error {
		if v.Path == p {
			return nil
		}
		if dir, name := split(v.Path); dir == p && (d.kids[name] == nil || !d.kids[name].known) {
			stays = true
			others = others || v.Op != store.OpBaseline || v.Plan != ""
		}
		return nil
	})
	return stays, others, err
}

// unreachableValue drops the aim for a content or metadata if it is impossible.
func (m *maker) unreachableValue(a *aims, g *aim, now, o *outcome, drop func(*aim, string)) {
	n := g.c.of
	if !o.has(n) {
		if f := m.goneBy(a, g.c); f != nil {
			m.conflict(store.Conflict{Path: a.h.title(g.c), Why: "deleted since", Actor: f.v.Actor, Time: f.v.Time})
		} else if now.has(n) {
			a.gone = append(a.gone, g)
		}
		drop(g, "")
		return
	}
	if !now.has(n) {
		return // it is made again
	}
	if g.c.kind == contentCell && !g.c.same(g.want, g.c.now()) {
		if why := m.refusal(a.h, n); why != "" {
			drop(g, why)
			return
		}
		if w := *g.want.st; w.regular() && !m.contents.has(w.blob) || w.link() && w.target == "" {
			why, size := m.contents.cannotMake(w)
			m.lost = append(m.lost, lost{Conflict: store.Conflict{Path: a.h.title(g.c), Why: why}, size: size})
			drop(g, "")
			return
		}
	}
	if other, f := m.namedByOthers(a, g); f != nil && a.apart {
		m.part(a, n, f.v.Seq)
		drop(g, "")
	} else if f != nil {
		x := store.Conflict{Path: a.title(g.c, other), Why: fmt.Sprintf("the same file is also %q, which is not part of this", string(other)), Actor: f.v.Actor, Time: f.v.Time}
		delete(a.of, g.c)
		m.conflict(x)
		drop(g, "")
	}
}

// part makes a separate file of the names that a file had before a version.
func (m *maker) part(a *aims, n *node, before uint64) {
	own := a.h.newNode(n.kind, store.Inode{})
	own.content.known, own.content.base = true, a.after(&n.content)
	own.meta.known, own.meta.base = true, a.after(&n.meta)
	for _, c := range n.entries {
		if c.seq(len(c.facts)) < before && a.of[c] == nil {
			a.of[c] = &aim{c: c, want: value{node: own}, made: true}
		}
	}
	delete(a.of, &n.content)
	delete(a.of, &n.meta)
}

// title returns a present path of the cell's node other than but, or else the cell's title.
func (a *aims) title(c *cell, but store.Path) store.Path {
	for _, at := range c.of.entries {
		if p, ok := a.h.path(at); ok && p != but {
			return p
		}
	}
	return a.h.title(c)
}

// newest returns the number of the newest selected fact of a cell; 0: none.
func (c *cell) newest(sel func(*fact) bool) (seq uint64) {
	for i := range c.facts {
		if f := &c.facts[i]; sel(f) {
			seq = f.v.Seq
		}
	}
	return seq
}

// goneBy returns the fact by which somebody else later removed the node of a content or metadata,
// or nil.
func (m *maker) goneBy(a *aims, of *cell) *fact {
	n, since := of.of, of.newest(a.sel)
	for _, c := range n.names {
		i := a.h.effective(c, len(c.facts)-1)
		if i < 0 || c.facts[i].v.Seq < since || a.sel(&c.facts[i]) || c.facts[i].v.Plan != "" {
			continue
		}
		if j := a.h.effective(c, i-1); j >= 0 && c.facts[j].node == n || j < 0 && c.base.node == n {
			return &c.facts[i]
		}
	}
	return nil
}

// namedByOthers returns a name that somebody else gave to a file after it was changed and that
// remains.
func (m *maker) namedByOthers(a *aims, g *aim) (store.Path, *fact) {
	newest := g.c.newest(a.sel)
	for _, c := range g.c.of.entries {
		i := a.h.effective(c, len(c.facts)-1)
		if i < 0 || a.of[c] != nil {
			continue
		}
		if f := &c.facts[i]; f.v.Op == store.OpLink && f.v.Seq > newest && !a.sel(f) && f.v.Plan == "" {
			p, _ := a.h.path(c)
			return p, f
		}
	}
	return "", nil
}

// nameStrangers lists removed files, and files restored as separate files, if they have unknown
// further names.
func (m *maker) nameStrangers(a *aims, o *outcome) {
	now := a.h.presently()
	listed := map[*node]bool{}
	list := func(n *node, p store.Path, why string) {
		if !listed[n] {
			listed[n] = true
			m.lose(store.Conflict{Path: p, Why: why})
		}
	}
	for _, g := range a.sorted() {
		if g.c.kind != entryCell {
			continue
		}
		n := g.want.node
		if n == nil || n.dir() || now.has(n) || n.in.Ino == 0 {
			continue
		}
		if unknown := max(n.strangeNames(), n.strangers); unknown > 0 {
			list(n, a.pathIn(o, g.c), fmt.Sprintf("it is a separate file now; its file had %d other, unknown names, which may have changed", unknown))
		}
	}
	for _, n := range a.h.all {
		isOther := n.dir() || n == a.h.root || n.continuesAs != nil
		if !a.undo || isOther || o.has(n) || !m.changedBy(a, n) {
			continue
		}
		if unknown := max(int(n.strangeNames())-len(now.places[n]), int(n.strangers)); unknown > 0 {
			list(n, a.h.title(&n.content), fmt.Sprintf("its file had %d other, unknown names, which keep the change", unknown))
		}
	}
}

// departure is the removal of a restored directory whose contents were not saved.
type departure struct {
	home, at store.Path // where it is restored, and where it was when it was removed
	by       store.Version
}

// departed returns the departure of a directory, itself or in a parent directory, since a version.
// It returns false if there is none.
func (h *past) departed(n *node, since uint64) (d departure, ok bool) {
	for _, c := range n.names {
		for i := range c.facts {
			v := c.facts[i].v
			if c.before(i).node != n || v.Seq < since || v.Op != store.OpRmdir {
				continue
			}
			if by := h.removal(*v); by.NoContent != "" && !by.Excluded() {
				d, ok = departure{at: v.Path, by: by}, true
			}
		}
	}
	if ok || len(n.entries) == 0 {
		return d, ok
	}
	d, ok = h.departed(n.entries[0].dir, since)
	d.at = join(d.at, n.entries[0].name)
	return d, ok
}

// removal returns the version that removed a directory with its whole subtree. This is the
// directory's own version or that of a parent.
func (h *past) removal(v store.Version) store.Version {
	for p := v.Path; v.NoContent == "" && p != ""; p, _ = split(p) {
		for _, o := range h.owns[p] {
			if o.Seq > v.Seq && o.Time == v.Time && o.Op == store.OpRmdir && o.NoContent != "" {
				return *o
			}
		}
	}
	return v
}

// nameDeparted lists the restored directories whose removal saved no content, because unread files
// in them are lost. It leaves out directories in a directory that it lists.
func (m *maker) nameDeparted(a *aims, o *outcome) {
	now := a.h.presently()
	var all []departure
	for _, g := range a.of {
		if n := g.want.node; g.c.kind == entryCell && n != nil && n.dir() && !now.has(n) {
			if d, ok := a.h.departed(n, a.since); ok {
				d.home = a.pathIn(o, g.c)
				all = append(all, d)
			}
		}
	}
	slices.SortFunc(all, func(x, y departure) int { return strings.Compare(string(x.home), string(y.home)) })
	for i, d := range all {
		if !slices.ContainsFunc(all[:i], d.within) {
			m.lose(store.Conflict{Path: d.home, Why: d.by.NoContent, Actor: d.by.Actor, Time: d.by.Time})
		}
	}
}

// within reports whether d was removed together with o, in o's subtree, and is restored in it.
func (d departure) within(o departure) bool {
	return d.by.Time == o.by.Time && d.home != o.home && d.home.Inside(o.home) && d.at == o.at+d.home[len(o.home):]
}

// changedBy reports whether a selected fact changed the content or metadata of a node.
func (m *maker) changedBy(a *aims, n *node) bool {
	sel := func(f fact) bool { return a.sel(&f) }
	return slices.ContainsFunc(n.content.facts, sel) || slices.ContainsFunc(n.meta.facts, sel)
}
