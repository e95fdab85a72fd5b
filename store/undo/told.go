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

// describes: a version gives the content of what the version below it left. It is a
// baseline, or that of a file that came under a tracked name.
func describes(v, below store.Version) bool {
	if st := stateOf(v); v.Op == store.OpBaseline && !st.regular() { // found once more, under a name of another class
		return !below.Deleted() && st.in.Ino != 0 && st.in == store.InodeOf(below.Stat) && st.equal(stateOf(below))
	}
	shown := v.Op == store.OpWrite && below.From != "" && v.Time == below.Time
	return (v.Op == store.OpBaseline || shown) && sameBytes(v, below)
}

// sameBytes: two versions are of one file, which was not written to between them.
func sameBytes(a, b store.Version) bool {
	return regular(a) && !b.Deleted() && regular(b) && store.InodeOf(a.Stat) == store.InodeOf(b.Stat) &&
		a.Stat.Size == b.Stat.Size && (a.Stat.Mtime == b.Stat.Mtime || a.Stat.Size == 0) // who truncates an empty file changes its time
}

// described is the state that a version left, with the content that was found to be
// its only before it was destroyed, under whatever name it had by then.
func (m *maker) described(own []store.Version, i int) (state, error) {
	st := stateOf(own[i])
	if !st.regular() || st.blob != (store.Hash{}) {
		return st, nil
	}
	for is := own[i]; i+1 < len(own); is = own[i] {
		next := own[i+1]
		to := store.Path("")
		switch {
		case describes(next, is):
			st.blob, st.noContent = next.Blob, next.NoContent
			return st, nil
		case next.Op == store.OpChmod && sameBytes(next, is):
			i++
		case next.Op == store.OpMoved:
			to = next.To
		case next.Op == store.OpExchange:
			to = next.From // what came from there is here now
		default:
			return st, nil
		}
		if to == "" {
			continue
		}
		var err error
		own, err = m.view.History(to, false)
		if err != nil {
			return st, err
		}
		i = slices.IndexFunc(own, func(v store.Version) bool { return v.From == is.Path && v.Prev == is.Seq })
		if i < 0 || !sameBytes(own[i], is) {
			return st, nil
		}
	}
	return st, nil
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

// began: before its first known version the path did not exist.
func began(v store.Version) bool {
	switch v.Op {
	case store.OpCreate, store.OpMkdir, store.OpSymlink, store.OpMknod, store.OpRename, store.OpLink, store.OpUnlink, store.OpRmdir, store.OpMoved:
		return true
	}
	return false
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

// has: a plan can bring this content. It is asked at every turn.
func (m *maker) has(h store.Hash) bool {
	if m.plan.Made[h] != nil {
		return true
	}
	at, asked := m.kept[h]
	if !asked {
		at.Place, at.kept = m.store.Contents().Place(h)
		m.kept[h] = at
	}
	return at.kept
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
		m.has(h)
	}
}
