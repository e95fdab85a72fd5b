package undo

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"cachebro/store"

	"golang.org/x/sys/unix"
)

// Entry is the state of a path at a moment.
type Entry struct {
	Path     store.Path
	Mode     uint32 // st_mode
	Size     int64
	Mtime    int64 // ns since the epoch
	UID, GID uint32
	Target   string     // target of a symlink
	Blob     store.Hash // content of a regular file; zero: empty, or unknown for the reason Why
	Why      string     // why the content is unknown
	Seq      uint64     // the version that recorded the state; 0: only its children are known
}

// look calls fn with a maker that only reads.
func (p Planner) look(fn func(*maker) error) error {
	m := newMaker(Planner{Store: p.Store}, "")
	return p.Store.View(func(v *store.View) error {
		m.view = v
		return fn(m)
	})
}

// list is List for one maker.
func (m *maker) list(dir store.Path, seq uint64) (out []Entry, found bool, err error) {
	h, err := m.cellsSince([]store.Path{dir}, seq+1, nil)
	if err != nil {
		return nil, false, err
	}
	d := h.nodeThen(dir, seq)
	if d == nil && len(h.owns[dir]) > 0 || d != nil && !d.dir() {
		return nil, false, nil
	}
	dirs, found := h.pathsOf(dir, seq), d != nil
	names := map[store.Path]bool{}
	for _, at := range dirs {
		err = m.view.Children(at, func(c store.Path) bool {
			_, name := split(c)
			names[name] = names[name] || !store.OwnFile(c)
			return true
		})
		if err != nil {
			return nil, false, err
		}
	}
	var changed, paths []store.Path // paths that changed since the moment, and all their names
	for _, name := range slices.Sorted(maps.Keys(names)) {
		p := join(dir, name)
		cur, known, err := m.view.Current(p)
		switch {
		case err != nil:
			return nil, false, err
		case !names[name]:
		case !known || cur.Seq > seq:
			changed = append(changed, p)
			for _, at := range dirs {
				paths = append(paths, join(at, name))
			}
		case !cur.Deleted():
			out = append(out, entryOf(p, stateOf(cur)))
		}
	}
	h, err = m.cellsSince(paths, seq+1, nil)
	if err != nil {
		return nil, false, err
	}
	for _, p := range changed {
		e, there := h.entryThen(p, seq)
		if !there && len(h.owns[p]) == 0 { // a directory that is known only by its children
			var in []Entry
			in, _, err = m.list(p, seq)
			if err != nil {
				return nil, false, err
			}
			e, there = Entry{Path: p, Mode: unix.S_IFDIR | 0o755}, len(in) > 0
		}
		if there {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b Entry) int { return strings.Compare(string(a.Path), string(b.Path)) })
	return out, found || len(out) > 0, nil
}

// pathsOf returns all known paths that a directory of a moment has had.
func (h *past) pathsOf(dir store.Path, seq uint64) (out []store.Path) {
	d := h.nodeThen(dir, seq)
	if d == nil {
		above, name := split(dir)
		for _, p := range h.pathsOf(above, seq) {
			out = append(out, join(p, name))
		}
		return out
	}
	on := map[*node]bool{} // nodes on the way up, because a directory may have contained its present parent
	var up func(n *node, below store.Path)
	up = func(n *node, below store.Path) {
		if n == h.root {
			out = append(out, below)
		}
		if on[n] {
			return
		}
		on[n] = true
		for _, c := range n.names {
			up(c.dir, joinBelow(c.name, below))
		}
		delete(on, n)
	}
	up(d, "")
	return out
}

// nodeThen returns the node at a path at a moment, or nil if there was none or it is unknown.
func (h *past) nodeThen(p store.Path, seq uint64) *node {
	n := h.root
	for name := range strings.SplitSeq(string(p), "/") {
		if name == "" {
			continue // p is the root
		}
		c := n.kids[store.Path(name)]
		if c == nil || !c.known {
			return nil
		}
		n = c.before(h.upTo(c, seq)).node
		if n == nil {
			return nil
		}
	}
	return n
}

// stateThen returns the state of a path at a moment, or false if nobody saw it.
func (h *past) stateThen(p store.Path, seq uint64) (st state, known bool) {
	n := h.nodeThen(p, seq)
	if n == nil {
		return st, true
	}
	content, meta := n.content.before(h.upTo(&n.content, seq)), n.meta.before(h.upTo(&n.meta, seq))
	if content.unknown || meta.unknown {
		return st, false
	}
	st = joined(*content.st, *meta.st, n)
	st.seq = max(content.st.seq, meta.st.seq)
	if st.seq == meta.st.seq && meta.st.size == st.size {
		st.mtime = meta.st.mtime // the file's time was changed with its mode
	}
	return st, true
}

// entryThen returns the entry of a path at a moment, or false if the path did not exist.
func (h *past) entryThen(p store.Path, seq uint64) (Entry, bool) {
	st, known := h.stateThen(p, seq)
	own := h.owns[p]
	why := "what was there is not known"
	for _, v := range own {
		if v.Seq > seq && v.Excluded() && notSaved(*v) {
			known, why = false, v.NoContent
		}
	}
	if known {
		return entryOf(p, st), !st.absent()
	}
	first := own[0]
	return Entry{Path: p, Mode: cmp.Or(first.Stat.Mode, unix.S_IFREG|0o644), Size: first.Stat.Size, Mtime: first.Stat.Mtime, Seq: first.Seq, Why: why}, true
}

func entryOf(p store.Path, st state) Entry {
	e := Entry{Path: p, Mode: st.mode, Size: st.size, Mtime: st.mtime, Target: st.target, Blob: st.blob, Seq: st.seq}
	if st.owned {
		e.UID, e.GID = st.uid, st.gid
	}
	if st.regular() && st.blob == (store.Hash{}) && st.size > 0 {
		e.Why = cmp.Or(st.noContent, "its content was not saved")
	}
	return e
}

func split(p store.Path) (dir, name store.Path) {
	i := strings.LastIndexByte(string(p), '/')
	return p[:max(i, 0)], p[i+1:]
}

func join(dir, name store.Path) store.Path {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}
