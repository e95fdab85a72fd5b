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
		s := settling{maker: m, a: a, now: now, after: a.outcome()}
		err := s.pass()
		if err != nil || !s.changed {
			return s.after, err
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
			a.leave(g.c, map[*cell]bool{})
		}
	}
}

// leave drops the aims that would remove or change the node of an entry, and what is in it. It adds
// the entries to left. A file that keeps a name elsewhere may still change.
func (a *aims) leave(c *cell, left map[*cell]bool) {
	n := c.now().node
	left[c] = true
	a.drop(c)
	if !slices.ContainsFunc(n.entries, func(o *cell) bool { return !left[o] && a.after(o).node == n }) {
		a.drop(&n.content)
		a.drop(&n.meta)
	}
	for _, kid := range n.kids {
		if in := kid.now().node; in != nil && !a.moves(in) {
			a.leave(kid, left)
		}
	}
}

func (a *aims) drop(c *cell) {
	delete(a.of, c)
	a.dropped[c] = true
}

// moves reports whether an aim gives the node a name that it does not have.
func (a *aims) moves(n *node) bool {
	return slices.ContainsFunc(n.names, func(c *cell) bool { return a.after(c).node == n && c.now().node != n })
}

// settling is one pass over the aims, which drops those that are impossible in the tree that they
// lead to, or adds the aims that they need.
type settling struct {
	*maker
	a       *aims
	now     *outcome // the present tree
	after   *outcome // the tree that the aims lead to
	changed bool     // an aim was dropped or added, so the tree has to be computed again
}

// pass runs one check after the other, until one of them changes the aims.
func (s *settling) pass() error {
	for _, check := range []func() error{s.dropElsewhere, s.keepOutside, s.dropEntries, s.keepInside, s.dropValues} {
		err := check()
		if err != nil || s.changed {
			return err
		}
	}
	return nil
}

// drop drops an aim, and lists a conflict if why is not "".
func (s *settling) drop(g *aim, why string) {
	s.a.drop(g.c)
	s.changed = true
	if why != "" {
		s.conflictAt(s.a.h, g.c, store.Conflict{Why: why})
	}
}

// dropElsewhere drops aims for nodes that have another entry that they must not lose.
func (s *settling) dropElsewhere() error {
	once := map[*node]bool{}
	for _, g := range s.a.sorted() {
		if n := g.want.node; s.a.isElsewhere(s.after, g) && !once[n] {
			once[n] = true // after this, another aim for the node may be possible
			s.drop(g, "it is elsewhere now")
		}
	}
	return nil
}

// keepOutside keeps endangered nodes that no entry would hold. Files in directories that will not exist
// come last, because they may keep their places if their directory is kept.
func (s *settling) keepOutside() error {
	for _, last := range []bool{false, true} {
		for _, n := range s.a.h.all {
			inLostDir := !n.dir() && len(n.entries) > 0 && !s.after.has(n.entries[0].dir)
			if inLostDir != last || n.placedBy(s.a) {
				continue
			}
			if err := s.keep(n); err != nil {
				return err
			}
		}
		if s.changed {
			break
		}
	}
	return nil
}

// keepInside keeps an endangered node that is held by a directory which will not exist. It comes after
// dropEntries, which may restore that directory with the nodes in it.
func (s *settling) keepInside() error {
	for _, n := range s.a.h.all {
		if s.changed {
			break
		}
		if s.a.kept[n] || !n.placedBy(s.a) { // a kept node was decided about together with its directory
			continue
		}
		if err := s.keep(n); err != nil {
			return err
		}
	}
	return nil
}

// dropEntries drops aims for entries that cannot hold the wanted node, or whose present node must not
// be removed.
func (s *settling) dropEntries() error {
	// First restore directories. Otherwise one that moves into such a directory would count as removed.
	for _, g := range s.a.sorted() {
		needs := s.a.of[g.c] == g && g.want.node != nil && !s.after.has(g.c.dir)
		if needs && !s.now.has(g.c.dir) {
			s.needDir(g)
		}
	}
	if s.changed {
		return nil
	}
	keeps := false // whether a directory stays after all, with what is in it
	for _, g := range s.a.sorted() {
		if s.a.of[g.c] != g || g.c.kind != entryCell {
			continue
		}
		n, was := g.want.node, g.c.now().node
		if n != nil {
			if !s.after.has(g.c.dir) {
				if !keeps {
					s.needDir(g)
				}
				continue
			}
			if !s.canHold(g) {
				continue
			}
		}
		if was == nil || was == n || s.after.has(was) {
			continue
		}
		if was.dir() {
			rest, err := s.remaining(s.a, was)
			if err != nil {
				return err
			}
			if rest.any {
				s.drop(g, "the directory holds other files")
				keeps = true
			}
			continue
		}
		if why := s.refusal(s.a.h, was); why != "" {
			s.drop(g, why)
		}
	}
	return nil
}

// needDir restores the directory of a wanted entry, or drops the aim if it cannot be restored.
func (s *settling) needDir(g *aim) {
	switch home := s.homeOf(s.a, g.c.dir); {
	case s.a.restoresDir(g.c.dir): // the parent directory is restored as well
	case home != nil && s.a.isFree(home):
		s.a.giveBack(home, g.c.dir)
		s.changed = true
	default:
		why := "its directory was replaced by something else"
		if s.intoSuccessor(g) {
			why = ""
		}
		s.drop(g, why)
	}
}

// intoSuccessor handles an aim for an entry of a directory that was replaced by another one. The node
// gets the same name in the new directory. intoSuccessor returns false if there is no new directory,
// or if the name is taken there.
func (s *settling) intoSuccessor(g *aim) bool {
	for _, dir := range s.successors(g.c.dir, nil) {
		if c := s.a.h.entry(dir, g.c.name); s.a.isFree(c) {
			s.a.of[c] = s.a.anew(c, g.want.node)
			return true
		}
	}
	return false
}

// successors returns the directories that have names of a removed directory after the plan. A name
// in a directory that was removed too leads into the successors of that one. below holds the
// directories below dir on the way to it, because moves may have put each of two directories into the
// other one.
func (s *settling) successors(dir *node, below []*node) (all []*node) {
	below = append(slices.Clip(below), dir)
	places, _ := s.a.placed(dir)
	for _, p := range places {
		parents := []*node{p.c.dir}
		if !s.after.has(p.c.dir) {
			parents = nil
			if !slices.Contains(below, p.c.dir) {
				parents = s.successors(p.c.dir, below)
			}
		}
		for _, parent := range parents {
			n := s.a.after(s.a.h.entry(parent, p.c.name)).node
			if n != nil && n.dir() && s.after.has(n) {
				all = append(all, n)
			}
		}
	}
	return all
}

// canHold reports whether the node that an entry should get can be made and would be in the tree. If
// not, it drops the aim.
func (s *settling) canHold(g *aim) bool {
	n, was := g.want.node, g.c.now().node
	if !s.now.has(n) {
		if why, size := s.contents.cannotMake(s.a.whole(n)); why != "" {
			s.loseAt(s.a.h, g.c, store.Conflict{Why: why}, size)
			s.drop(g, "")
			if slices.ContainsFunc(s.after.places[was], func(c *cell) bool { return c.now().node != was }) {
				s.a.of[g.c] = &aim{c: g.c, back: g.back, from: g.from} // the node that has this name now still moves to its own place
			}
			return false
		}
	}
	if !s.after.has(n) {
		s.drop(g, "it would be in its own subtree")
		return false
	}
	return true
}

// dropValues drops impossible aims for contents and metadata.
func (s *settling) dropValues() error {
	for _, g := range s.a.sorted() {
		if g.c.kind != entryCell && s.a.of[g.c] == g {
			s.dropValue(g)
		}
	}
	return nil
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
	for i := a.h.effective(c, len(c.facts)-1); i >= 0; i = a.h.effective(c, i-1) {
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

// giveBack makes an entry hold the node n after the plan.
func (a *aims) giveBack(c *cell, n *node) {
	delete(a.of, c)
	if c.now().node != n {
		a.of[c] = a.again(c, n)
	}
}

// again returns the aim that gives an entry the node n, which the entry does not hold now. If others have
// changed the entry since, the aim does not count as a return to its former value. Otherwise it would
// cancel what they did, and a second undo would then undo more.
func (a *aims) again(c *cell, n *node) *aim {
	i := c.lastIndex(func(f *fact) bool { return f.node == n })
	if i < 0 && c.base.node != n {
		return a.anew(c, n)
	}
	for j := a.h.effective(c, len(c.facts)-1); j > i; j = a.h.effective(c, j-1) {
		if !a.sel(&c.facts[j]) {
			return a.anew(c, n)
		}
	}
	return &aim{c: c, want: value{node: n}, back: c.seq(i + 1), from: c.facts[i+1].seqs[0]}
}

// anew returns the aim that gives an entry the node n as a new value.
func (a *aims) anew(c *cell, n *node) *aim {
	return &aim{c: c, want: value{node: n}, made: true, back: n.meta.seq(len(n.meta.facts)), took: c.newest(a.sel)}
}

// keep handles a node that would not exist after the plan, although others have changed it since the
// undone facts placed it. The node stays in the first free entry that ever held it, preferably one
// that the undone facts gave it. It is listed as a conflict, except a directory that stays only
// because of what is listed itself.
func (s *settling) keep(n *node) error {
	a := s.a
	if n == a.h.root || n.continuesAs != nil || s.after.has(n) {
		return nil
	}
	places, undone := a.placed(n)
	if !undone || !s.now.has(n) && !a.removed(n) {
		return nil
	}
	f, rest, former := a.keptBy(n), remains{}, (*cell)(nil)
	if s.now.has(n) {
		former = a.takenName(n)
	}
	if n.dir() && s.now.has(n) {
		var err error
		rest, err = s.remaining(a, n)
		if err != nil {
			return err
		}
	}
	stays := f != nil || rest.others || former != nil
	if !stays || a.force && !n.dir() {
		return nil
	}
	if !a.kept[n] {
		a.kept[n] = true
		switch {
		case f != nil:
			s.conflictAt(a.h, &n.content, store.Conflict{Why: "changed since", Actor: f.v.Actor, Time: f.v.Time})
		case former != nil:
			s.conflictAt(a.h, &n.content, store.Conflict{Why: fmt.Sprintf("it cannot return to %q", string(a.h.title(former)))})
		case rest.unlisted:
			s.conflictAt(a.h, &n.content, store.Conflict{Why: "the directory holds other files"})
			s.conflicts[len(s.conflicts)-1].inUse = true
		}
		if s.bringBack(n, places) {
			return nil
		}
	}
	for c, g := range a.of {
		if c.kind == entryCell && c.now().node == n && g.want.node != n {
			delete(a.of, c)
			s.changed = true
			if f == nil && former == nil {
				s.conflictAt(a.h, c, store.Conflict{Why: "the directory holds other files"})
			}
		}
	}
	return nil
}

// bringBack gives a node the first free place outside of its own subtree, and the others that the same
// plan gave it at once. It returns false if there is none.
func (s *settling) bringBack(n *node, places []holding) (found bool) {
	plan := ""
	for _, p := range places {
		ofOtherPlan := plan == "" || p.v.Plan != plan
		if found && ofOtherPlan || !s.a.isFree(p.c) || s.a.inSubtree(p.c.dir, n, nil) {
			continue
		}
		s.a.giveBack(p.c, n)
		found, plan = true, p.v.Plan
	}
	s.changed = s.changed || found
	return found
}

// inSubtree reports whether directory d is n or in its subtree after the plan. below holds the
// directories on the way to d, because the plan may put each of two directories into the other one.
func (a *aims) inSubtree(d, n *node, below []*node) bool {
	below = append(slices.Clip(below), d)
	return d == n || slices.ContainsFunc(d.names, func(c *cell) bool {
		return a.after(c).node == d && !slices.Contains(below, c.dir) && a.inSubtree(c.dir, n, below)
	})
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

// lasting returns the index of the newest fact of a cell that will be in effect after the plan; -1
// means the base. Whether a node stays is decided by these facts, because a later undo will see
// no others.
func (a *aims) lasting(c *cell) int {
	i := len(c.facts) - 1
	if g := a.aimFor(c); g != nil && !g.made && g.from != 0 {
		for i >= 0 && c.facts[i].seqs[0] >= g.from {
			i--
		}
	}
	return a.h.effective(c, i)
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
		for i := a.lasting(c); i >= 0; {
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

// keptBy returns a change that somebody else made to a node after the undone facts placed it, or nil
// if there is none. A change that the plan undoes too does not count.
func (a *aims) keptBy(n *node) *fact {
	placed := a.placedAt(n)
	madeByUndone := n.made.Seq != 0 && a.sel(&fact{v: n.made, seqs: []uint64{n.made.Seq}})
	for _, c := range []*cell{&n.content, &n.meta} {
		i := a.lasting(c)
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

// placedAt returns the number of the version by which the undone facts first placed a node, or placed
// it again after others had removed it. It returns the highest number if they never placed it.
func (a *aims) placedAt(n *node) uint64 {
	names, removed := 0, false // removed: others removed its last name
	var all []*fact            // that gave it a name or took one
	for _, c := range n.names {
		if c.base.node == n {
			names++
		}
		for i := range c.facts {
			if f := &c.facts[i]; (c.before(i).node == n) != (f.node == n) {
				all = append(all, f)
			}
		}
	}
	slices.SortFunc(all, func(x, y *fact) int { return compareSeq(x.v.Seq, y.v.Seq) })
	placed := ^uint64(0)
	for _, f := range all {
		if f.node != n {
			names--
			removed = names == 0 && !a.sel(f)
			continue
		}
		if a.sel(f) && (removed || placed > f.v.Seq) {
			placed = f.v.Seq
		}
		names, removed = names+1, false
	}
	return placed
}

// decided returns the value that a cell should get, even if its node will not exist.
func (a *aims) decided(c *cell) value {
	if g := a.aimFor(c); g != nil {
		return g.want
	}
	return c.now()
}

// aimFor returns the aim for a cell, even if it needs no step, or nil if there is none.
func (a *aims) aimFor(c *cell) *aim {
	if g := a.of[c]; g != nil {
		return g
	}
	return a.noStep[c]
}

// remains says what remains in a directory that should be removed.
type remains struct {
	any      bool // something remains
	others   bool // the directory must stay because of it
	unlisted bool // part of it is not itself listed as something that stays
}

func (m *maker) remaining(a *aims, d *node) (rest remains, err error) {
	for _, c := range d.kids {
		if n := a.after(c).node; n != nil {
			rest.any = true
			stayed := n.dir() || a.of[c] != nil || a.kept[n]
			rest.others = rest.others || stayed || a.setByOthers(c)
			rest.unlisted = rest.unlisted || !a.kept[n]
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
			rest.others, rest.unlisted = rest.others || put, true
		}
		return nil
	})
	return rest, err
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

// dropValue drops the aim for a content or metadata if it is impossible.
func (s *settling) dropValue(g *aim) {
	n := g.c.of
	if !s.after.has(n) {
		if f := s.goneBy(s.a, g.c); f != nil {
			s.conflictAt(s.a.h, g.c, store.Conflict{Why: "deleted since", Actor: f.v.Actor, Time: f.v.Time})
		} else if s.now.has(n) {
			s.a.gone, s.a.noStep[g.c] = append(s.a.gone, g), g
		}
		s.drop(g, "")
		return
	}
	if !s.now.has(n) {
		return // the node is made again with this content or metadata
	}
	if g.c.kind == contentCell && !g.c.same(g.want, g.c.now()) {
		if why := s.refusal(s.a.h, n); why != "" {
			s.drop(g, why)
			return
		}
		if w := *g.want.st; w.regular() && !s.contents.has(w.blob) || w.link() && w.target == "" {
			why, size := s.contents.cannotMake(w)
			s.loseAt(s.a.h, g.c, store.Conflict{Why: why}, size)
			s.drop(g, "")
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
