package undo

import (
	"maps"
	"slices"
	"strings"

	"cachebro/store"

	"golang.org/x/sys/unix"
)

// goal is the state that a path should get.
type goal struct {
	path  store.Path
	want  state
	made  bool   // want is not the state of any version of the path
	took  uint64 // for a merge: the newest version that is undone
	edits []int  // the edits of version took that are undone; nil: all
}

// goals calls find for each element of the list of, and plans to reach the goals that it returns.
// find returns false if there is nothing to do, or after listing a conflict or loss. contents holds
// contents that the store may lack.
func goals[T any](p Planner, kind, title string, of []T, contents [][]byte, find func(*maker, T) (goal, bool, error)) (*Draft, error) {
	return p.make(kind, func(m *maker) (*aims, error) {
		var all []goal
		m.plan.Title = title
		for _, b := range contents {
			m.contents.add(b)
		}
		wanted := map[store.Hash]bool{}
		for _, f := range of {
			g, ok, err := find(m, f)
			if err != nil {
				return nil, err
			}
			if ok {
				all, wanted[g.want.blob] = append(all, g), true
			}
		}
		maps.DeleteFunc(m.plan.Made, func(h store.Hash, _ []byte) bool { return !wanted[h] }) // the content was needed only to compare
		return m.aimsAt(all)
	})
}

// aimsAt returns the aims that give paths their wanted state, whatever they hold now.
func (m *maker) aimsAt(goals []goal) (*aims, error) {
	slices.SortFunc(goals, func(a, b goal) int { return strings.Compare(string(a.path), string(b.path)) })
	paths := make([]store.Path, len(goals))
	for i := range goals {
		paths[i] = goals[i].path
	}
	h, err := m.cellsSince(paths, m.view.Seq()+1, nil)
	if err != nil {
		return nil, err
	}
	a := newAims(h, 0, func(*fact) bool { return true })
	for i := range slices.Backward(goals) { // paths in a directory come first, before the directory is removed or a file takes its name
		if goals[i].want.absent() {
			a.aimAt(&goals[i])
		}
	}
	for i := range goals {
		g := &goals[i]
		if g.want.absent() {
			continue
		}
		if why := a.aimAt(g); why != "" {
			m.conflict(store.Conflict{Path: g.path, Why: why})
		}
	}
	return a, nil
}

// aimAt adds the aims of a goal. It returns the reason if the path cannot get the wanted state.
func (a *aims) aimAt(g *goal) (why string) {
	c := a.place(g.path, !g.want.absent())
	if c == nil {
		return "its directory was replaced by something else"
	}
	aim := func(c *cell, want value) {
		other := a.of[c] // of a goal for another name of the file
		switch {
		case c.same(want, a.after(c)), other != nil && c.same(want, c.now()):
		case other != nil && c.kind == contentCell:
			why = "another name of the same file gets another content"
		default:
			a.of[c] = &aim{c: c, want: want, made: g.made, back: g.want.seq, took: g.took, edits: g.edits}
		}
	}
	n := c.now().node
	switch {
	case g.want.absent():
		aim(c, value{})
		return why
	case n == nil, n.kind != g.want.kind(), g.want.in.Ino != 0 && n.in != g.want.in && n.nlink > 1:
		n = a.h.newNode(g.want.kind(), store.Inode{})
		n.beginAs(g.want)
		aim(c, value{node: n})
		if of := a.of[c]; of != nil {
			of.made = true
		}
		return why
	}
	if !n.dir() {
		aim(&n.content, value{st: &g.want})
	}
	aim(&n.meta, value{st: &g.want})
	return why
}

// place returns the cell of a path in the tree after the plan, or nil if an element of the path is
// missing or is not a directory. If making is set, it adds aims for the missing directories.
func (a *aims) place(p store.Path, making bool) *cell {
	dir := a.h.root
	for {
		name, rest, more := strings.Cut(string(p), "/")
		c := a.h.entry(dir, store.Path(name))
		if !more {
			return c
		}
		p = store.Path(rest)
		if !c.known && making && a.after(c).node == nil {
			c.known = true
		}
		dir = a.after(c).node
		if dir == nil {
			if !making {
				return nil
			}
			a.of[c] = a.lastDir(c)
			if a.of[c] == nil {
				dir = a.h.newNode(unix.S_IFDIR, store.Inode{})
				dir.meta.known, dir.meta.base.st = true, &state{mode: unix.S_IFDIR | 0o755}
				a.of[c] = &aim{c: c, want: value{node: dir}}
			}
			dir = a.of[c].want.node
		}
		if !dir.dir() {
			return nil
		}
	}
}

// lastDir returns the aim that gives an entry the last directory that it held and that does not
// exist now. It returns nil if there is none.
func (a *aims) lastDir(c *cell) *aim {
	for i := len(c.facts) - 1; i >= 0; i-- {
		if n := c.before(i).node; n != nil && n.dir() && len(n.entries) == 0 && !a.restoresDir(n) {
			return a.again(c, n)
		}
	}
	return nil
}

func split(p store.Path) (dir, name store.Path) {
	return p.Dir(), p[strings.LastIndexByte(string(p), '/')+1:]
}

func join(dir, name store.Path) store.Path {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}
