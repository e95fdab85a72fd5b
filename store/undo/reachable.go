package undo

import (
	"fmt"
	"slices"

	"cachebro/store"
)

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

// leaveWhole drops the aims that would remove a directory, or something in it, if the directory
// must stay whole (see Planner.Whole). Nodes that the plan moves elsewhere still leave it.
func (m *maker) leaveWhole(a *aims, whole func(store.Path) string) {
	if whole == nil {
		return
	}
	for _, g := range slices.Clone(a.sorted()) {
		if g.c.kind != entryCell || a.of[g.c] != g {
			continue
		}
		n := g.c.now().node
		if n == nil || !n.dir() || n.placedBy(a) {
			continue
		}
		at, there := a.h.path(g.c)
		if !there {
			continue
		}
		if why := whole(at); why != "" {
			m.conflictAt(a.h, g.c, store.Conflict{Why: why})
			a.leave(g.c)
		}
	}
}

// leave drops the aims that would remove or change the node of an entry, and what is in it.
func (a *aims) leave(c *cell) {
	n := c.now().node
	for _, dropped := range []*cell{c, &n.content, &n.meta} {
		delete(a.of, dropped)
		a.dropped[dropped] = true
	}
	for _, kid := range n.kids {
		if in := kid.now().node; in != nil && !in.placedBy(a) {
			a.leave(kid)
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
			m.conflictAt(h, g.c, store.Conflict{Why: why})
		}
	}
	once := map[*node]bool{}
	for _, g := range a.sorted() {
		if n := g.want.node; a.isElsewhere(o, g) && !once[n] {
			once[n] = true // after this, another aim for the node may be possible
			drop(g, "it is elsewhere now")
		}
	}
	if changed {
		return true, nil
	}
	var below []*node // nodes in directories that will not exist; such a directory may still be restored, with the nodes in it
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
	if changed {
		return true, nil
	}
	keeps := false // whether a directory stays after all, with what is in it
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
				case home != nil && a.isFree(home):
					a.of[home] = home.again(g.c.dir)
					changed = true
				default:
					drop(g, "its directory was replaced by something else")
				}
				continue
			}
			if !now.has(n) {
				if why, size := m.contents.cannotMake(a.whole(n)); why != "" {
					m.loseAt(h, g.c, store.Conflict{Why: why}, size)
					drop(g, "")
					if slices.ContainsFunc(o.places[was], func(c *cell) bool { return c.now().node != was }) {
						a.of[g.c] = &aim{c: g.c, back: g.back, from: g.from} // the node that has this name now still moves to its own place
					}
					continue
				}
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
			rest, err := m.remaining(a, was)
			if err != nil {
				return changed, err
			}
			if rest.any {
				drop(g, "the directory holds other files")
				keeps = true
			}
			continue
		}
		if why := m.refusal(h, was); why != "" {
			drop(g, why)
		}
	}
	for _, n := range below {
		if changed {
			return true, nil
		}
		if a.kept[n] {
			continue // it was kept earlier, and the loop above has decided about its directory
		}
		changed, err = m.endangered(a, n, now, o)
		if err != nil {
			return changed, err
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

// isElsewhere reports whether an aim would give a second name to a directory, or to a file that
// others have moved elsewhere.
func (a *aims) isElsewhere(o *outcome, g *aim) bool {
	n := g.want.node
	if n == nil || len(o.places[n]) < 2 || !o.has(g.c.dir) {
		return false
	}
	return n.dir() || a.undo && a.movedOn(g.c, n)
}

// movedOn reports whether an undone rename moved a file from this name to another one, from which
// somebody else has moved or removed it since.
func (a *aims) movedOn(c *cell, n *node) bool {
	for i := range c.facts {
		f := &c.facts[i]
		if c.before(i).node != n || !a.sel(f) {
			continue
		}
		for _, to := range n.names {
			// A plan may have several steps for one name.
			next := 1 + to.lastIndex(func(o *fact) bool { return o.node == n && sameOperation(o.v, f.v) })
			if next > 0 && to.now().node != n && !a.sel(&to.facts[next]) {
				return true
			}
		}
	}
	return false
}

// lastIndex returns the index of the newest fact that which selects, or -1.
func (c *cell) lastIndex(which func(*fact) bool) int {
	i := len(c.facts) - 1
	for i >= 0 && !which(&c.facts[i]) {
		i--
	}
	return i
}

// sameOperation reports whether two versions were recorded for the same operation or the same plan.
func sameOperation(a, b *store.Version) bool {
	return a.Time == b.Time || a.Plan != "" && a.Plan == b.Plan
}

// again returns the aim that gives an entry the node n, which the entry held before.
func (c *cell) again(n *node) *aim {
	for i := len(c.facts) - 1; i >= 0; i-- {
		if c.before(i).node == n {
			return &aim{c: c, want: value{node: n}, back: c.seq(i), from: c.facts[i].seqs[0]}
		}
	}
	return &aim{c: c, want: value{node: n}, made: true}
}

// endangered handles a node that would not exist after the plan, although others have changed it
// since the undone facts placed it. The node stays in the first free entry that ever held it,
// preferably one that the undone facts gave it. It is listed as a conflict, except a directory that
// stays only because of files that others put into it. endangered returns true if it changed the
// aims.
func (m *maker) endangered(a *aims, n *node, now, o *outcome) (changed bool, err error) {
	if n == a.h.root || n.continuesAs != nil || o.has(n) {
		return false, nil
	}
	places, undone := a.placed(n)
	if !undone || !now.has(n) && !a.removed(n) {
		return false, nil
	}
	f, rest, former := m.keptBy(a, n), remains{}, (*cell)(nil)
	if now.has(n) {
		former = a.takenName(n)
	}
	if n.dir() && now.has(n) {
		rest, err = m.remaining(a, n)
		if err != nil {
			return false, err
		}
	}
	stays := f != nil || rest.others || former != nil
	if !stays || a.force && !n.dir() {
		return false, nil
	}
	switch {
	case a.kept[n]:
	case f != nil:
		m.conflictAt(a.h, &n.content, store.Conflict{Why: "changed since", Actor: f.v.Actor, Time: f.v.Time})
	case former != nil:
		m.conflictAt(a.h, &n.content, store.Conflict{Why: fmt.Sprintf("it cannot return to %q", string(a.h.title(former)))})
	case !rest.put:
		m.conflictAt(a.h, &n.content, store.Conflict{Why: "the directory holds other files"})
	}
	if !a.kept[n] {
		a.kept[n] = true
		plan := "" // a plan may have given the node several names at once
		for _, p := range places {
			if !a.isFree(p.c) || changed && (plan == "" || p.v.Plan != plan) {
				continue
			}
			if delete(a.of, p.c); p.c.now().node != n {
				a.of[p.c] = p.c.again(n)
			}
			changed, plan = true, p.v.Plan
		}
		if changed {
			return true, nil
		}
	}
	for c, g := range a.of {
		if c.kind == entryCell && c.now().node == n && g.want.node != n {
			delete(a.of, c)
			changed = true
			if f == nil && former == nil {
				m.conflictAt(a.h, c, store.Conflict{Why: "the directory holds other files"})
			}
		}
	}
	return changed, nil
}

// undoneFacts returns the facts of a cell that are undone, newest first. For an undo, facts that are
// already undone are left out.
func (a *aims) undoneFacts(c *cell) (out []*fact) {
	for i := len(c.facts) - 1; i >= 0; i-- {
		if a.undo {
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

// holding is an entry that held a node at some time.
type holding struct {
	c *cell
	v *store.Version // the version that gave the node this entry; Seq 0: it is not known
}

// placed returns the entries that ever held a node. For an undo, the entries that the undone facts
// gave it come first, oldest first. All entries follow, newest first. undone is true if the undone
// facts gave it an entry.
func (a *aims) placed(n *node) (out []holding, undone bool) {
	var given, other []holding
	for _, c := range n.names {
		if store.OwnFile(c.name) {
			continue // it exists only while a plan is carried out
		}
		for _, f := range a.undoneFacts(c) {
			if f.node == n {
				given = append(given, holding{c, f.v})
			}
		}
		heldSince := func(i int) bool { return i == len(c.facts) || c.facts[i].v.Seq >= a.since } // the value before fact i
		if c.base.node == n && heldSince(0) {
			other = append(other, holding{c, &store.Version{Seq: c.since}})
		}
		for i, f := range c.facts {
			if f.node == n && heldSince(i+1) {
				other = append(other, holding{c, f.v})
			}
		}
	}
	undone = len(given) > 0
	slices.SortFunc(given, func(x, y holding) int { return compareSeq(x.v.Seq, y.v.Seq) })
	slices.SortFunc(other, func(x, y holding) int { return compareSeq(y.v.Seq, x.v.Seq) })
	if !a.undo {
		given = nil
	}
	return append(given, other...), undone
}

// takenName returns a name of a node that the undone facts removed and had not given to it, or nil.
func (a *aims) takenName(n *node) *cell {
	if !a.undo {
		return nil
	}
	for _, c := range n.names {
		for i := a.h.effective(c, len(c.facts)-1); i >= 0; {
			below := a.h.effective(c, i-1)
			given := below >= 0 && a.sel(&c.facts[below])
			taken := c.before(below+1).node == n && c.facts[i].node != n
			if taken && !given && a.sel(&c.facts[i]) {
				return c
			}
			i = below
		}
	}
	return nil
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

func (a *aims) restoresDir(d *node) bool {
	for _, g := range a.of {
		if g.c.kind == entryCell && g.want.node == d {
			return true
		}
	}
	return false
}

// isFree reports whether a node may be brought back to an entry.
func (a *aims) isFree(c *cell) bool { return a.after(c).node == nil && !a.dropped[c] }

// homeOf returns a free entry to which a directory is restored, or nil if there is none. If paths
// were requested, it is the entry that held the directory before all facts, if there is one.
func (m *maker) homeOf(a *aims, d *node) *cell {
	if m.requested != nil {
		for _, c := range d.names {
			if c.base.node == d {
				return c
			}
		}
	}
	places, _ := a.placed(d)
	for _, p := range places {
		if a.isFree(p.c) {
			return p.c
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
	madeByUndone := n.made.Seq != 0 && a.sel(&fact{v: n.made, seqs: []uint64{n.made.Seq}})
	if madeByUndone {
		placed = min(placed, n.made.Seq)
	}
	for _, c := range []*cell{&n.content, &n.meta} {
		i := a.h.effective(c, len(c.facts)-1)
		for i >= 0 && a.sel(&c.facts[i]) {
			i = a.h.effective(c, i-1)
		}
		if i < 0 {
			continue
		}
		f := &c.facts[i]
		asMade := c.kind == metaCell && madeByUndone && c.same(a.decided(c), c.base) // the others only undid a chmod
		if f.v.Seq > placed && !f.found && f.v.Plan == "" && !asMade {
			return f
		}
	}
	return nil
}

// decided returns the value that a cell should get, even if its node will not exist.
func (a *aims) decided(c *cell) value {
	for _, g := range a.gone {
		if g.c == c {
			return g.want
		}
	}
	return a.after(c)
}

// remains says what remains in a directory that should be removed.
type remains struct {
	any    bool // something remains
	others bool // the directory must stay because of it
	put    bool // somebody is known to have put part of it there
}

func (m *maker) remaining(a *aims, d *node) (rest remains, err error) {
	for _, c := range d.kids {
		if n := a.after(c).node; n != nil {
			rest.any = true
			stayed := n.dir() || a.of[c] != nil || a.kept[n]
			rest.others = rest.others || stayed || a.setByOthers(c)
			rest.put = rest.put || !a.foundWith(c, n)
		}
	}
	p, ok := a.h.dirPath(d)
	if !ok {
		return rest, nil
	}
	err = m.view.Live(p, func(v store.Version) error {
		if v.Path == p {
			return nil
		}
		dir, name := split(v.Path)
		unread := d.kids[name] == nil || !d.kids[name].known || !a.h.sure[v.Path] // the entry may be known, but not from the time since the directory got this path
		if dir == p && unread {
			rest.any = true
			put := v.Op != store.OpBaseline || v.Plan != ""
			rest.others, rest.put = rest.others || put, rest.put || put
		}
		return nil
	})
	return rest, err
}

// foundWith reports whether nobody is known to have put a node into an entry, because it was there
// when the entry was first seen.
func (a *aims) foundWith(c *cell, n *node) bool {
	for i := a.h.effective(c, len(c.facts)-1); i >= 0; i = a.h.effective(c, i-1) {
		if c.facts[i].node == n {
			return c.facts[i].found
		}
	}
	return c.found.Seq != 0
}

// setByOthers reports whether somebody else gave an entry its present value. The undone facts may have
// removed and restored that value since.
func (a *aims) setByOthers(c *cell) bool {
	i := a.h.effective(c, len(c.facts)-1)
	for i >= 0 && a.sel(&c.facts[i]) {
		i = a.h.effective(c, i-1)
	}
	return i >= 0 && c.same(c.facts[i].value, c.now()) && !c.facts[i].found
}

// unreachableValue drops the aim for a content or metadata if it is impossible.
func (m *maker) unreachableValue(a *aims, g *aim, now, o *outcome, drop func(*aim, string)) {
	n := g.c.of
	if !o.has(n) {
		if f := m.goneBy(a, g.c); f != nil {
			m.conflictAt(a.h, g.c, store.Conflict{Why: "deleted since", Actor: f.v.Actor, Time: f.v.Time})
		} else if now.has(n) {
			a.gone = append(a.gone, g)
		}
		drop(g, "")
		return
	}
	if !now.has(n) {
		return // the node is made again with this content or metadata
	}
	if g.c.kind == contentCell && !g.c.same(g.want, g.c.now()) {
		if why := m.refusal(a.h, n); why != "" {
			drop(g, why)
			return
		}
		if w := *g.want.st; w.regular() && !m.contents.has(w.blob) || w.link() && w.target == "" {
			why, size := m.contents.cannotMake(w)
			m.loseAt(a.h, g.c, store.Conflict{Why: why}, size)
			drop(g, "")
			return
		}
	}
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
