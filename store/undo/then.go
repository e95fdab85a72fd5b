package undo

import (
	"crypto/sha256"

	"cachebro/store"

	"golang.org/x/sys/unix"
)

// Then returns what each path in the directories dirs was at a moment, so that the tree of another
// machine can be made the same. Without dirs it returns all paths. The Mode of a path that did not
// exist then, but at another time, is 0. Paths that this history has never recorded are left out.
func (p Planner) Then(dirs []store.Path, seq uint64) (out []Entry, err error) {
	m := p.looker()
	err = p.Store.View(func(v *store.View) error {
		m.view = v
		add := func(path store.Path) error {
			e, there, err := m.was(path, seq)
			if err != nil {
				return err
			}
			if !there {
				e = Entry{}
			}
			e.Path = path
			out = append(out, e)
			return nil
		}
		var below func(dir store.Path) error
		below = func(dir store.Path) error {
			var names []store.Path
			if err := v.Children(dir, func(c store.Path) bool { names = append(names, c); return true }); err != nil {
				return err
			}
			for _, name := range names {
				if store.OwnFile(name) {
					continue
				}
				if err := add(name); err != nil {
					return err
				}
				if err := below(name); err != nil {
					return err
				}
			}
			return nil
		}
		if len(dirs) == 0 {
			return below("")
		}
		for _, dir := range dirs {
			if err := add(dir); err != nil {
				return err
			}
			if err := below(dir); err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

// Wanted are the contents that RestoreThen would write and the store does not have.
func (p Planner) Wanted(of []Entry) (out []Entry, err error) {
	m, seen := p.looker(), map[store.Hash]bool{}
	err = p.Store.View(func(v *store.View) error {
		m.view = v
		for _, e := range of {
			g, ok, err := m.then(e)
			if err != nil {
				return err
			}
			if h := g.want.blob; ok && h != (store.Hash{}) && !seen[h] && h != g.have.blob && !m.has(h) {
				seen[h] = true
				out = append(out, e)
			}
		}
		return nil
	})
	return out, err
}

// RestoreThen plans to make the tree here what another machine's was, as Then told it
// there. Only what differs is touched; a path of which that machine knows nothing stays
// as it is, and so does a file whose content it does not tell. A file that is there in
// both keeps its owner, its attributes and its mode, except for the executable bits.
// contents are those that the store may not have.
func (p Planner) RestoreThen(title string, of []Entry, contents [][]byte) (*Draft, error) {
	return p.make(store.PlanRestore, func(m *maker) (_ *aims, err error) {
		var goals []goal
		m.plan.Title = title
		for _, b := range contents {
			m.plan.Made[sha256.Sum256(b)] = append([]byte{}, b...)
		}
		used := map[store.Hash]bool{}
		for _, e := range of {
			g, ok, err := m.then(e)
			if err != nil {
				return nil, err
			}
			if !ok {
				continue
			}
			m.unlent(&g)
			goals, used[g.want.blob] = append(goals, g), true
		}
		for h := range m.plan.Made {
			if !used[h] {
				delete(m.plan.Made, h)
			}
		}
		return m.aimsAt(goals, true)
	})
}

// then is the goal for one path; false: there is nothing to do, or it was named.
func (m *maker) then(e Entry) (g goal, ok bool, err error) {
	cur, _, err := m.view.Current(e.Path)
	if err != nil {
		return g, false, err
	}
	have := stateOf(cur)
	want := state{mode: e.Mode, blob: e.Blob, size: e.Size, target: e.Target, noContent: "its content did not come along"}
	switch {
	case store.OwnFile(e.Path) || cur.Class != store.Class(0) && !have.absent():
		return g, false, nil // ignored here: it is nobody else's
	case e.Why != "":
		if have.absent() || have.size != e.Size {
			m.lose(store.Conflict{Path: e.Path, Why: e.Why})
		}
		return g, false, nil
	case have.dir() && want.dir():
		return g, false, nil
	case !want.absent() && !want.dir() && !want.regular() && !want.link():
		m.lose(store.Conflict{Path: e.Path, Why: "it is neither a file, a directory nor a symbolic link"})
		return g, false, nil
	}
	if want.link() {
		want.mode = unix.S_IFLNK | 0o777
	}
	if !have.absent() && have.kind() == want.kind() {
		want.attrs = have.attrs
		if (have.mode&0o111 == 0) == (want.mode&0o111 == 0) {
			want.mode = have.mode
		}
		if have.sameContent(want) || have.regular() && have.size == 0 && want.size == 0 {
			want.blob, want.mtime = have.blob, have.mtime
		}
	}
	return goal{path: e.Path, have: have, want: want, made: !want.absent()}, !have.equal(want), nil
}
