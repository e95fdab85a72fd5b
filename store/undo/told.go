package undo

import (
	"bytes"
	"slices"

	"cachebro/store"
)

// notKept: a directory went of which nothing is kept, or a file changed there; the
// version says what.
func notKept(v store.Version) bool {
	return v.NoContent != "" && (v.Op == store.OpRmdir || v.Excluded())
}

// nameUnkept names what a version took away of which nothing is known.
func (m *maker) nameUnkept(h *past, v store.Version) {
	if notKept(v) && (v.Excluded() || v.Plan == "" && h.bySeq[v.Seq] == nil) {
		m.lose(store.Conflict{Path: v.Path, Why: v.NoContent, Actor: v.Actor, Time: v.Time})
	}
}

// carriedAway is what a path held whose first version is that it was renamed: of
// ignored files nothing is recorded before.
func carriedAway(first store.Version) state {
	if first.Op != store.OpMoved || first.Class != 1 {
		return state{}
	}
	first.Op, first.NoContent = store.OpBaseline, store.NoContentRenamed
	return stateOf(first)
}

// madeLater reports whether a chmod was recorded before the making of its file. A file is recorded
// as made when it is first closed, and sed -i, for example, changes the mode before that.
func madeLater(own []store.Version, first store.Version) bool {
	if first.Op != store.OpChmod {
		return false
	}
	for _, v := range own {
		switch {
		case v.Seq <= first.Seq:
		case v.Deleted():
			return false
		case v.Op == store.OpCreate:
			return store.InodeOf(v.Stat) == store.InodeOf(first.Stat)
		}
	}
	return false
}

// askFor asks at once for the contents that a plan wants to bring, in the order
// in which they lie in the store: each block of it holds dozens.
func (m *maker) askFor(a *aims) {
	var hs []store.Hash
	for c, g := range a.of {
		n := g.want.node
		if c.kind != entryCell {
			n = c.of
		}
		if n != nil {
			if w := a.whole(n); w.regular() {
				hs = append(hs, w.blob)
			}
		}
	}
	slices.SortFunc(hs, func(a, b store.Hash) int { return bytes.Compare(a[:], b[:]) })
	for _, h := range hs {
		m.contents.has(h)
	}
}
