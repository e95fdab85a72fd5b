package undo

import (
	"fmt"
	"slices"
	"strings"

	"cachebro/store"
)

// nameStrangers lists files that have further, unknown names: files that are restored as separate
// files, and removed files whose change is undone, because the other names keep that change.
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
		if n == nil || n.dir() || n.in.Ino == 0 {
			continue
		}
		unknown := max(n.strangeNames(), n.strangers)
		switch {
		case now.has(n):
			if n.changedUnseen() && a.of[&n.content] == nil {
				list(n, a.pathIn(o, g.c), "its content changed while its file had only names that are not known")
			}
		case unknown > 0:
			list(n, a.pathIn(o, g.c), fmt.Sprintf("it is a separate file now; its file had names that are not known (%d), which may have changed", unknown))
		}
	}
	for _, n := range a.h.all {
		isOther := n.dir() || n == a.h.root || n.continuesAs != nil
		if !a.undo || isOther || o.has(n) || !m.changedBy(a, n) {
			continue
		}
		if unknown := max(int(n.strangeNames())-len(now.places[n]), int(n.strangers)); unknown > 0 {
			list(n, a.h.title(&n.content), fmt.Sprintf("its file had names that are not known (%d), which keep the change", unknown))
		}
	}
}

// departure describes how a directory that is restored had been removed without saving its
// contents.
type departure struct {
	home, at store.Path // where it is restored, and where it was when it was removed
	by       store.Version
}

// departed returns how a directory was removed after a version, by itself or with a parent
// directory. It returns false if its contents were saved, or if it was not removed.
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
	for p := v.Path; v.NoContent == "" && p != ""; p = p.Dir() {
		for _, o := range h.owns[p] {
			if o.Seq > v.Seq && o.Time == v.Time && o.Op == store.OpRmdir && o.NoContent != "" {
				return *o
			}
		}
	}
	return v
}

// nameDeparted lists the restored directories that were removed without saving their contents,
// because files in them that nobody has read are lost. It also lists those that have come back since,
// because the history does not have everything that came with them. It leaves out directories in a
// directory that it lists.
func (m *maker) nameDeparted(a *aims, o *outcome) {
	var all []departure
	for _, g := range a.of {
		if n := g.want.node; n != nil && n.dir() {
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

// within reports whether d was removed together with o, from o's subtree, and is restored to the
// same place in it.
func (d departure) within(o departure) bool {
	return d.by.Time == o.by.Time && d.home != o.home && d.home.Inside(o.home) && d.at == o.at+d.home[len(o.home):]
}

// changedBy reports whether a selected fact changed the content or metadata of a node.
func (m *maker) changedBy(a *aims, n *node) bool {
	sel := func(f fact) bool { return a.sel(&f) }
	return slices.ContainsFunc(n.content.facts, sel) || slices.ContainsFunc(n.meta.facts, sel)
}
