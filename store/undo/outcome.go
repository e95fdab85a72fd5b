package undo

import (
	"cmp"
	"slices"
	"strings"

	"cachebro/store"
)

// outcome is the tree after a plan, or at a moment.
type outcome struct {
	places map[*node][]*cell // entries of each node that is reachable from the root
}

func (a *aims) outcome() *outcome {
	return a.h.tree(func(c *cell) *node { return a.after(c).node })
}

// tree returns the tree in which each entry holds the node that the function "held" returns for it.
func (h *past) tree(held func(*cell) *node) *outcome {
	o := &outcome{places: make(map[*node][]*cell, len(h.all))}
	o.places[h.root] = nil
	todo := []*node{h.root}
	for len(todo) > 0 {
		d := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, c := range d.kids {
			n := held(c)
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

func (h *past) presently() *outcome {
	if h.now == nil {
		h.now = h.tree(func(c *cell) *node { return c.now().node })
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

// pathAfter returns the path of a cell in the tree o after the plan. If the cell's node has several
// names, a name that it keeps is preferred.
func (a *aims) pathAfter(o *outcome, c *cell) store.Path {
	if c.kind == entryCell {
		return a.pathIn(o, c)
	}
	at := o.places[c.of]
	if len(at) == 0 {
		return a.h.title(c)
	}
	first := slices.MinFunc(at, func(x, y *cell) int {
		return strings.Compare(string(a.pathIn(o, x)), string(a.pathIn(o, y)))
	})
	for _, kept := range c.of.entries {
		if slices.Contains(at, kept) {
			first = kept
			break
		}
	}
	return a.pathIn(o, first)
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
		if !a.undo || a.of[c] != nil {
			return *a.after(c).st
		}
		return *a.h.effectiveNow(c).st
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
	st.owned, st.attrs = meta.owned, meta.attrs
	st.uid, st.gid = meta.uid, meta.gid
	st.in, st.nlink = n.in, n.nlink
	return st
}
