package undo

import (
	"bytes"
	"slices"

	"cachebro/store"
	"cachebro/store/leaf/event"
)

// notSaved reports whether a version removed or changed something without saving its content. Only
// a removed directory or an excluded path can be lost in this way.
func notSaved(v store.Version) bool {
	return v.NoContent != "" && (v.Op == store.OpRmdir || v.Excluded())
}

// nameUnsaved lists as lost what version v removed without saving it. It does nothing if the
// directory around it was made by a version that is undone too, because before that nothing was
// there.
func (m *maker) nameUnsaved(h *past, undone func(seq uint64) bool, v store.Version) {
	if dir := h.excludedIn[v.Seq]; dir != nil && undone(dir.made.Seq) {
		return
	}
	if notSaved(v) && (v.Excluded() || v.Plan == "" && h.bySeq[v.Seq] == nil) {
		m.lose(store.Conflict{Path: v.Path, Why: v.NoContent, Actor: v.Actor, Time: v.Time})
	}
}

// nameUnplaced lists as lost a path that a version removed from an unknown directory.
func (m *maker) nameUnplaced(h *past, v store.Version) {
	removed := v.Op == store.OpUnlink || v.Op == store.OpRmdir
	if removed && !v.Excluded() && v.Plan == "" && h.entryOf[v.Seq] == nil {
		m.lose(store.Conflict{Path: v.Path, Why: "its directory is not known to have existed", Actor: v.Actor, Time: v.Time})
	}
}

// beforeRename returns the state of a path before it was renamed, if the rename is its first
// version. Ignored files have no earlier version.
func beforeRename(first store.Version) state {
	if first.Op != store.OpMoved || first.Class != event.Ignored {
		return state{}
	}
	first.Op, first.NoContent = store.OpBaseline, store.NoContentRenamed
	return stateOf(first)
}

// madeLater reports whether a chmod was recorded before the creation of its file. The creation is
// recorded when the file is first closed, and programs such as sed -i change the mode before that.
func madeLater(own []*store.Version, first store.Version) bool {
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

func pointers(vs []store.Version) []*store.Version {
	out := make([]*store.Version, len(vs))
	for i := range vs {
		out[i] = &vs[i]
	}
	return out
}

// lookUpContents looks up all contents that a plan wants to write or would destroy.
func (m *maker) lookUpContents(a *aims) {
	hs := make([]store.Hash, 0, 2*len(a.of))
	for c, g := range a.of {
		for _, n := range [...]*node{c.of, c.now().node, g.want.node} {
			if n != nil {
				hs = append(hs, a.whole(n).blob, n.content.now().st.blob)
			}
		}
	}
	slices.SortFunc(hs, func(a, b store.Hash) int { return bytes.Compare(a[:], b[:]) })
	m.contents.lookUp(slices.Compact(hs))
}
