package undo

import (
	"cmp"
	"slices"

	"cachebro/store"

	"golang.org/x/sys/unix"
)

// Entry is what a path was at a moment.
type Entry struct {
	Path     store.Path
	Mode     uint32 // st_mode
	Size     int64
	Mtime    int64 // ns since the epoch
	UID, GID uint32
	Target   string     // of a symlink
	Blob     store.Hash // of a regular file; zero: empty, or Why says why it is not known
	Why      string     // the content cannot be told: the reason
	Seq      uint64     // the version that says so, 0: only what was in it is known
}

// List tells what was in a directory at a moment, sorted by name: what Restore would
// make of it. "" is the root. False: there was no such directory.
func (p Planner) List(dir store.Path, seq uint64) (out []Entry, found bool, err error) {
	m := p.looker()
	err = p.Store.View(func(v *store.View) error {
		m.view = v
		if found, err = m.wasDir(dir, seq); err != nil || !found {
			return err
		}
		var names []store.Path
		if err := v.Children(dir, func(c store.Path) bool { names = append(names, c); return true }); err != nil {
			return err
		}
		for _, name := range names {
			e, there, err := m.was(name, seq)
			if err != nil {
				return err
			}
			if there {
				out = append(out, e)
			}
		}
		return nil
	})
	slices.SortFunc(out, func(a, b Entry) int { return cmp.Compare(a.Path, b.Path) })
	return out, found, err
}

func (p Planner) looker() *maker {
	return &maker{
		store: p.Store, plan: &Draft{Made: map[store.Hash][]byte{}, Read: map[store.Hash][]byte{}}, show: true,
		kept: map[store.Hash]place{}, returned: map[string]map[store.Path]store.Return{},
	}
}

// wasDir: the root, or a directory at that moment, by itself or by what was in it.
func (m *maker) wasDir(dir store.Path, seq uint64) (bool, error) {
	if dir == "" {
		return true, nil
	}
	e, there, err := m.was(dir, seq)
	return there && e.Mode&unix.S_IFMT == unix.S_IFDIR, err
}

// was is one path at a moment; false: it was not there.
func (m *maker) was(path store.Path, seq uint64) (e Entry, there bool, err error) {
	if store.OwnFile(path) {
		return e, false, nil
	}
	own, err := m.knownOf(path, seq)
	if err != nil {
		return e, false, err
	}
	if len(own) > 0 && own[len(own)-1].Seq <= seq && own[len(own)-1].Deleted() {
		return e, false, nil // nor was what had been in it
	}
	lost := len(m.plan.Lost)
	g, known, err := m.restoreGoal(path, own, seq)
	if err != nil {
		return e, false, err
	}
	w := g.want
	switch {
	case known && !w.absent():
		e = Entry{Path: path, Mode: w.mode, Size: w.size, Mtime: w.mtime, Target: w.target, Blob: w.blob, Seq: w.seq}
		if w.owned {
			e.UID, e.GID = w.uid, w.gid
		}
		if w.regular() && w.blob == (store.Hash{}) && w.size > 0 {
			e.Why = cmp.Or(w.noContent, "nothing was kept of its content")
		}
		return e, true, nil
	case !known && len(m.plan.Lost) > lost:
		first := own[0]
		e = Entry{Path: path, Mode: cmp.Or(first.Stat.Mode, unix.S_IFREG|0o644), Size: first.Stat.Size, Mtime: first.Stat.Mtime, Seq: first.Seq,
			Why: cmp.Or(m.plan.Lost[len(m.plan.Lost)-1].Why, "what was there is not known")}
		return e, true, nil
	case known:
		return e, false, nil // it was made later, with what was found in it
	}
	// A directory of which nothing is known by itself was there when something was in it.
	within, err := m.holds(path, seq)
	return Entry{Path: path, Mode: unix.S_IFDIR | 0o755}, within, err
}

// knownOf are the versions by which a path is told at a moment: the newest alone where
// it says all.
func (m *maker) knownOf(path store.Path, seq uint64) ([]store.Version, error) {
	cur, found, err := m.view.Current(path)
	if err != nil {
		return nil, err
	}
	if found && cur.Seq <= seq && (cur.Deleted() || !regular(cur) || cur.Blob != (store.Hash{})) {
		return []store.Version{cur}, nil
	}
	return m.view.History(path, false)
}

// holds: something was below a directory at a moment.
func (m *maker) holds(dir store.Path, seq uint64) (found bool, err error) {
	var names []store.Path
	if err := m.view.Children(dir, func(c store.Path) bool { names = append(names, c); return true }); err != nil {
		return false, err
	}
	for _, name := range names {
		if _, found, err = m.was(name, seq); found || err != nil {
			return found, err
		}
	}
	return false, nil
}
