package undo

import (
	"path"
	"slices"

	"cachebro/store"
	"cachebro/store/leaf/attrs"
)

// inAndOut are the rights that an ordinary user needs to a directory of which
// something is to be changed.
const inAndOut = 0o300

func closed(mode uint32) bool { return mode&inAndOut != inAndOut }

// open gives rights to the directories first in which something is changed.
// Those that are to have none in the end are shut last.
func (x *stepper) open(goals []goal) error {
	seen := map[store.Path]bool{".": true, "/": true}
	var dirs []store.Path
	for i := range goals {
		for dir := store.Path(path.Dir(string(goals[i].path))); !seen[dir]; dir = store.Path(path.Dir(string(dir))) {
			seen[dir] = true
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	for _, dir := range dirs {
		g := x.goals[dir]
		if g == nil {
			v, found, err := x.view.Current(dir)
			if err != nil {
				return err
			}
			if !found {
				continue
			}
			g = &goal{path: dir, have: stateOf(v), want: stateOf(v)}
		}
		if !g.have.dir() || !closed(g.have.mode) {
			continue
		}
		st := expect(store.Step{Do: store.DoChmod, Path: dir, Mode: g.have.mode | inAndOut}, g.have)
		// What it is given here it takes along, so it is given nothing that another
		// directory of this name is to have.
		if to := x.homes[dir]; !g.want.dir() || to != "" && to != dir {
			x.add(st)
			g.have.mode = st.Mode
			continue
		}
		if !closed(g.want.mode) {
			st.Mode = g.want.mode
			st = g.want.given(st)
		}
		x.add(st)
		if st.Mode != g.want.mode {
			x.shutLater(dir, st.Mode, g.want)
		}
		if x.goals[dir] == nil { // an undo of something earlier still knows it
			x.plan.Returns = append(x.plan.Returns, store.Return{Path: dir, Was: g.have.seq, Back: g.have.seq})
		}
		in := g.have.in
		g.have = g.want
		g.have.in = in
	}
	return nil
}

// unlent takes the rights of its owner from a file that never was there with them:
// a merge, or the content of another path.
func (m *maker) unlent(g *goal) {
	if g.want.regular() && (g.want.mode&setID != 0 || g.want.attrs.Has(attrs.Capability)) {
		g.want.mode &^= setID
		g.want.attrs = g.want.attrs.Without(func(name string) bool { return name == attrs.Capability })
		m.lose(store.Conflict{Path: g.path, Why: "the content is new here, so it does not get set-id bits or capabilities"})
	}
}

// needsNewFile reports whether the rights of an owner come back that the file loses when
// it is written to, or that it may not be given while it is there.
func (g *goal) needsNewFile() bool {
	lends := g.want.regular() && (g.want.mode&setID != 0 || g.want.attrs.Has(attrs.Capability))
	return lends && (!g.want.sameContent(g.have) || g.want.lends(g.have))
}

func (x *stepper) shutLater(dir store.Path, have uint32, want state) {
	x.shut = append(x.shut, want.given(store.Step{Do: store.DoChmod, Path: dir, Mode: want.mode, ExpMode: have}))
}
