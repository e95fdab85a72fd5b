package undo

import (
	"maps"
	"slices"

	"cachebro/store"

	"golang.org/x/sys/unix"
)

// Then returns the state of each path in the directories dirs at a moment, to restore the same tree
// on another machine. Without dirs it returns all paths. A path that existed only at other times
// has Mode 0. Paths that this history has never recorded are left out.
func (p Planner) Then(dirs []store.Path, seq uint64) (out []Entry, err error) {
	err = p.look(func(m *maker) error {
		var below func(dir store.Path, was bool) error
		// add adds the entries of a directory that names selects, each with everything in it.
		add := func(dir store.Path, was bool, names func(store.Path) bool) error {
			all := map[store.Path]Entry{}
			if was {
				there, _, err := m.list(dir, seq)
				if err != nil {
					return err
				}
				for _, e := range there {
					all[e.Path] = e
				}
			}
			err := m.view.Children(dir, func(c store.Path) bool {
				if _, there := all[c]; !there && !store.OwnFile(c) {
					all[c] = Entry{Path: c}
				}
				return true
			})
			if err != nil {
				return err
			}
			for _, p := range slices.Sorted(maps.Keys(all)) {
				if !names(p) {
					continue
				}
				out = append(out, all[p])
				if err := below(p, all[p].Mode&unix.S_IFMT == unix.S_IFDIR); err != nil {
					return err
				}
			}
			return nil
		}
		below = func(dir store.Path, was bool) error {
			return add(dir, was, func(store.Path) bool { return true })
		}
		if len(dirs) == 0 {
			return below("", true)
		}
		for _, dir := range dirs {
			above, _ := split(dir)
			if err := add(above, true, func(p store.Path) bool { return p == dir }); err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

// Wanted returns the entries whose content RestoreThen would write and the store lacks.
func (p Planner) Wanted(of []Entry) (out []Entry, err error) {
	seen := map[store.Hash]bool{}
	err = p.look(func(m *maker) error {
		for _, e := range of {
			g, ok, err := m.then(e)
			if err != nil {
				return err
			}
			if h := g.want.blob; ok && h != (store.Hash{}) && !seen[h] && h != g.have.blob && !m.contents.has(h) {
				seen[h] = true
				out = append(out, e)
			}
		}
		return nil
	})
	return out, err
}

// RestoreThen plans to give this tree the state of another machine's tree, as Then returned it
// there. It changes only what differs. It leaves alone paths that the other machine does not know,
// and files whose content was not sent. A file that exists in both trees keeps its owner, its
// attributes, and its mode except for the executable bits. contents holds contents that the store
// may lack.
func (p Planner) RestoreThen(title string, of []Entry, contents [][]byte) (*Draft, error) {
	return goals(p, store.PlanRestore, title, of, contents, func(m *maker, e Entry) (goal, bool, error) {
		g, ok, err := m.then(e)
		if ok {
			m.withoutNewRights(&g)
		}
		return g, ok, err
	})
}

// then returns the goal for one path. It returns false if there is nothing to do, or after listing
// a conflict or loss.
func (m *maker) then(e Entry) (g goal, ok bool, err error) {
	cur, _, err := m.view.Current(e.Path)
	if err != nil {
		return g, false, err
	}
	have := stateOf(cur)
	want := state{mode: e.Mode, blob: e.Blob, size: e.Size, target: e.Target, noContent: "its content was not sent"}
	switch {
	case store.OwnFile(e.Path) || cur.Class != store.Class(0) && !have.absent():
		return g, false, nil // ignored here, so it belongs to this machine alone
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
