package undo

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"cachebro/store"
)

// Revert plans to return one file to an earlier version. If version is above 0, it is that version.
// Otherwise Revert goes back as many states as steps says, not counting states in which the file
// did not exist. It returns ErrNotFound if there is no such version.
func (p Planner) Revert(path store.Path, steps int, version uint64) (*Draft, error) {
	return p.make(store.PlanRevert, func(m *maker) (*aims, error) { return m.revertAims(path, steps, version) })
}

func (m *maker) revertAims(path store.Path, steps int, version uint64) (*aims, error) {
	cur, found, err := m.view.Current(path)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("no version of %q is known: %w", string(path), store.ErrNotFound)
	}
	have := stateOf(cur)
	target, err := m.revertTarget(path, steps, version)
	want := stateOf(target)
	if want.dir() || have.dir() {
		return nil, fmt.Errorf("%q is a directory; undo or restore brings those back", string(path))
	}
	if err != nil {
		return nil, err
	}
	if want.absent() {
		want.seq = target.Seq
	}
	m.plan.Title = fmt.Sprintf("%s as in version %d", path, target.Seq)
	if target.Path != path {
		want.seq = 0
	}
	if have.equal(want) {
		return nil, nil
	}
	g := goal{path: path, want: want, made: target.Path != path}
	if g.made {
		m.withoutNewRights(&g)
	}
	return m.aimsAt([]goal{g})
}

func (m *maker) revertTarget(path store.Path, steps int, version uint64) (store.Version, error) {
	if version > 0 {
		return m.view.Version(version)
	}
	vs, err := m.view.History(path, true)
	if err != nil {
		return store.Version{}, err
	}
	// Add what the path held before another file was renamed to it.
	if len(vs) > 0 && vs[0].Path == path {
		own, err := m.view.History(path, false)
		if err != nil {
			return store.Version{}, err
		}
		vs = own
	}
	if steps <= 0 {
		steps = 1
	}
	v, i := m.effectiveVersion(vs, len(vs)-1)
	at := stateOf(v)
	for i > 0 {
		v, i = m.effectiveVersion(vs, i-1)
		if v.Op == store.OpMoved && v.Path != path {
			continue
		}
		st := stateOf(v)
		if st.absent() || st.equal(at) { // a deletion is no step
			continue
		}
		at = st
		if steps == 1 {
			return v, nil
		}
		steps--
	}
	return store.Version{}, fmt.Errorf("%q has no version that many steps back: %w", string(path), store.ErrNotFound)
}

// effectiveVersion returns the version that counts in place of vs[i], and its index. In place of a
// version made by a plan, the version that the plan restored counts. So a second revert goes back
// from the result of the first one. If the plan restored a merge, or a version that was recorded for
// another name of the file, the last earlier version with the same content counts.
func (m *maker) effectiveVersion(vs []store.Version, i int) (store.Version, int) {
	for v := vs[i]; v.Plan != ""; v = vs[i] {
		p, err := m.store.Journal.Plan(v.Plan)
		if err != nil {
			break
		}
		var back []uint64 // the versions that the plan restored
		other := false    // one of them is a merge, or was recorded for another name
		for _, r := range p.Returns {
			if r.Path == v.Path {
				back = append(back, r.Back)
				other = other || r.Made || !slices.ContainsFunc(vs[:i], func(o store.Version) bool { return o.Seq == r.Back })
			}
		}
		restored := func(o store.Version) bool {
			return stateOf(o).sameContent(stateOf(v)) && (slices.Contains(back, o.Seq) || other && o.Plan == "")
		}
		j := i - 1
		for j >= 0 && !restored(vs[j]) {
			j--
		}
		if j < 0 {
			break
		}
		i = j
	}
	return vs[i], i
}

// Restore plans to return paths and their subtrees (none: the whole tree) to their state when seq
// was the newest version. It changes only what differs.
func (p Planner) Restore(paths []store.Path, seq uint64) (*Draft, error) {
	return p.make(store.PlanRestore, func(m *maker) (*aims, error) { return m.restoreAims(paths, seq) })
}

func (m *maker) restoreAims(paths []store.Path, seq uint64) (*aims, error) {
	m.plan.Title = fmt.Sprintf("as of version %d", seq)
	if seq == 0 {
		m.plan.Title = "as it was before anything was recorded"
	} else if v, err := m.view.Version(seq); err == nil {
		m.plan.Title = fmt.Sprintf("as of %s (version %d)", v.When().Format("2006-01-02 15:04:05"), seq)
	}
	asked := func(p store.Path) bool { return insideAny(p, paths) }
	h, err := m.historySince(seq, paths)
	if err != nil {
		return nil, err
	}
	for _, own := range h.owns {
		for _, v := range own {
			if v.Seq > seq && asked(v.Path) {
				m.nameUnsaved(h, func(made uint64) bool { return made > seq }, *v)
			}
		}
	}
	a := newAims(h, seq+1, func(*fact) bool { return true })
	existed := h.treeAt(seq)
	// A file that did not exist at seq has no content to return to. It only loses its name.
	left := slices.DeleteFunc(h.cells(), func(c *cell) bool {
		return h.upTo(c, seq) == len(c.facts) || c.kind != entryCell && !existed.has(c.of)
	})
	isAsked := func(c *cell) bool {
		if c.kind == entryCell || c.of == h.root {
			return asked(h.title(c))
		}
		return slices.ContainsFunc(c.of.names, func(name *cell) bool {
			return asked(h.title(name)) && name.before(h.upTo(name, seq)).node == c.of
		})
	}
	for before := -1; len(left) != before; {
		before = len(left)
		left = slices.DeleteFunc(left, func(c *cell) bool {
			is := isAsked(c)
			if is {
				a.restoreCell(c, seq)
			}
			return is
		})
		a.directoriesOnce(seq)
		if len(left) == 0 {
			break
		}
		// If the plan moves a directory to a requested path, the entries in the directory are
		// requested too.
		after := a.outcome()
		isAsked = func(c *cell) bool { return asked(a.pathAfter(after, c)) }
	}
	a.apartFromOthers(seq, isAsked)
	for _, p := range paths {
		m.nameMovedAbove(a, p, seq)
	}
	return a, nil
}

// insideAny reports whether a path is in one of the directories. No directories mean the whole tree.
func insideAny(p store.Path, dirs []store.Path) bool {
	return len(dirs) == 0 || slices.ContainsFunc(dirs, p.Inside)
}

// historySince reads what has happened since version seq at paths and in the directories that were
// at these paths and are elsewhere now.
func (m *maker) historySince(seq uint64, paths []store.Path) (*past, error) {
	changed := map[store.Path]bool{}
	err := m.view.ChangedAfter(seq, func(p store.Path) { changed[p] = true })
	if err != nil {
		return nil, err
	}
	all, dirs := slices.Sorted(maps.Keys(changed)), slices.Clone(paths)
	for {
		within := slices.DeleteFunc(slices.Clone(all), func(p store.Path) bool { return !insideAny(p, dirs) })
		h, err := m.cellsSince(within, seq+1, nil)
		if err != nil {
			return nil, err
		}
		known, then := len(dirs), h.treeAt(seq)
		for n, at := range then.places {
			if !n.dir() || len(at) == 0 || !insideAny((&aims{h: h}).pathIn(then, at[0]), paths) {
				continue
			}
			if now, there := h.dirPath(n); there && !insideAny(now, dirs) {
				dirs = append(dirs, now)
			}
		}
		if len(dirs) == known {
			return h, nil
		}
	}
}

// restoreCell adds the aim to give a cell the value that it had at version seq.
func (a *aims) restoreCell(c *cell, seq uint64) {
	i := a.h.upTo(c, seq)
	then := c.before(i)
	if then.unknown {
		a.h.m.loseAt(a.h, c, unknownBefore(c.facts[0].v), 0)
		return
	}
	g := &aim{c: c, want: then, back: c.seq(i), from: c.facts[i].seqs[0]}
	if store.OwnFile(c.name) {
		g.want = value{}
	}
	if !c.same(g.want, c.now()) {
		a.of[c] = g
	}
}

// nameMovedAbove lists a path that a restore cannot bring back, because a directory above it that
// existed at version seq has another path now.
func (m *maker) nameMovedAbove(a *aims, p store.Path, seq uint64) {
	dir := a.h.root
	for above := store.Path(""); ; {
		name, _, more := strings.Cut(string(p[len(above):]), "/")
		c := dir.kids[store.Path(name)]
		if !more || c == nil {
			return
		}
		above += store.Path(name) + "/"
		n := c.before(a.h.upTo(c, seq)).node
		if n == nil || !n.dir() {
			return
		}
		if is, ok := a.h.dirPath(n); ok && is != above[:len(above)-1] && a.of[c] == nil {
			m.conflict(store.Conflict{Path: p, Why: fmt.Sprintf("its directory %q is %q now; restore the directory to move it back", string(above[:len(above)-1]), string(is))})
			return
		}
		dir = n
	}
}

func (h *past) treeAt(seq uint64) *outcome {
	return h.tree(func(c *cell) *node { return c.before(h.upTo(c, seq)).node })
}

// upTo returns the number of facts of a cell up to version seq. A file that a scan had found by
// then counts as existing, even if its creation was recorded later.
func (h *past) upTo(c *cell, seq uint64) int {
	younger := func(f fact) bool {
		if f.seqs[0] <= seq {
			return false
		}
		found := h.lastAt(f.v.Path, f.v.Seq)
		return c.kind != entryCell || found.Seq > seq || !store.FoundNew(*found, *f.v)
	}
	if i := slices.IndexFunc(c.facts, younger); i >= 0 {
		return i
	}
	return len(c.facts)
}

// directoriesOnce makes sure that a directory has only one entry: if a directory gets another
// entry, directoriesOnce removes the present one, unless the directory already had it at seq.
func (a *aims) directoriesOnce(seq uint64) {
	for _, g := range a.sorted() {
		n := g.want.node
		if g.c.kind != entryCell || n == nil || !n.dir() {
			continue
		}
		for _, c := range n.entries {
			if then := c.before(a.h.upTo(c, seq)); a.of[c] == nil && then.node != n {
				a.of[c] = &aim{c: c, want: then}
			}
		}
	}
}

// apartFromOthers makes a separate file for each entry whose file now has a further name that it
// did not have at seq and that was not requested. The file with that name keeps its present content
// and metadata unless it also has a requested name that it had at seq.
func (a *aims) apartFromOthers(seq uint64, isAsked func(*cell) bool) {
	then := func(c *cell) value { return c.before(a.h.upTo(c, seq)) }
	for _, g := range a.sorted() {
		n := g.want.node
		if g.c.kind != entryCell || n == nil || n.dir() {
			continue
		}
		further := func(c *cell) bool { return a.of[c] == nil && then(c).node != n }
		if slices.ContainsFunc(n.entries, further) {
			own := a.h.newNode(n.kind, store.Inode{})
			own.content.known, own.content.base = true, then(&n.content)
			own.meta.known, own.meta.base = true, then(&n.meta)
			g.want.node, g.made = own, true
			if !slices.ContainsFunc(n.entries, func(c *cell) bool { return then(c).node == n && a.after(c).node == n && isAsked(c) }) {
				delete(a.of, &n.content)
				delete(a.of, &n.meta)
			}
		}
	}
}
