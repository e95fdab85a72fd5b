package undo

import (
	"cmp"
	"crypto/sha256"
	"maps"

	"cachebro/store"

	"golang.org/x/sys/unix"
)

// Side is what a path is in another machine's history.
type Side struct {
	Mode    uint32 // st_mode; 0: absent
	Content []byte // of a regular file
	Target  string // of a symlink
}

// Elsewhere is what another machine did to a path.
type Elsewhere struct {
	Path store.Path
	Was  Side   // what it made of it
	Want Side   // what it was before
	Lost string // why it is not known; "": it is
}

// Elsewhere plans to take back here what another machine did there. A path is touched
// where it is what that machine left; else it is in Conflicts, unless it can be merged
// and merge is set, or force is. A file keeps its owner; set-id bits do not come.
func (p Planner) Elsewhere(title string, of []Elsewhere, merge, force bool) (*Draft, error) {
	return p.make(store.PlanUndo, func(m *maker) (_ *aims, err error) {
		var goals []goal
		m.plan.Title = title
		wanted := map[store.Hash]bool{}
		for _, f := range of {
			g, ok, err := m.elsewhere(f, merge, force)
			if err != nil {
				return nil, err
			}
			if ok {
				goals, wanted[g.want.blob] = append(goals, g), true
			}
		}
		for h := range m.plan.Made { // what was needed to compare only
			if !wanted[h] {
				delete(m.plan.Made, h)
			}
		}
		return m.aimsAt(goals, force)
	})
}

// elsewhere is the goal for one path; false: there is nothing to do, or it was named.
func (m *maker) elsewhere(f Elsewhere, merge, force bool) (g goal, ok bool, err error) {
	if f.Lost != "" {
		m.lose(store.Conflict{Path: f.Path, Why: f.Lost})
		return g, false, nil
	}
	cur, _, err := m.view.Current(f.Path)
	if err != nil {
		return g, false, err
	}
	have, was, want := stateOf(cur), m.stateAt(f.Was), m.stateAt(f.Want)
	chmod := was.perm() != want.perm() // else it differs as people's umasks do
	if !chmod && !have.absent() && !want.absent() && have.kind() == want.kind() {
		want.mode = have.mode
	}
	g = goal{path: f.Path, have: have, want: want, made: !want.absent()}
	switch {
	case have.equal(want):
		return g, false, nil
	case !have.absent() && have.sameContent(was), have.absent() && was.absent(), force:
	default:
		if merged, clean := m.merge(was, want, have); merge && clean {
			g.want = merged
			break
		}
		why := "it is not what that machine left"
		if have.absent() {
			why = "it is not here"
		}
		m.conflict(store.Conflict{Path: f.Path, Why: why, Actor: cur.Actor, Time: cur.Time})
		return g, false, nil
	}
	m.unlent(&g)
	return g, true, nil
}

// stateAt is a side as a state, with its content at hand.
func (m *maker) stateAt(s Side) state {
	st := state{mode: s.Mode &^ setID, target: s.Target}
	if st.regular() {
		st.blob, st.size = sha256.Sum256(s.Content), int64(len(s.Content))
		m.plan.Made[st.blob] = append([]byte{}, s.Content...)
	}
	if st.link() {
		st.mode = unix.S_IFLNK | 0o777
	}
	return st
}

// Taken is what a query selects in this history, for who takes it back on another
// machine: what each path was before, and what it was made.
func (p Planner) Taken(q Query) (title string, of []Elsewhere, err error) {
	_, err = p.make(store.PlanUndo, func(m *maker) (_ *aims, err error) {
		var sel selection
		sel, title, err = m.selected(q, map[uint64]bool{})
		if err != nil {
			return nil, err
		}
		known := map[uint64]*store.Version{}
		for _, vs := range sel {
			maps.Copy(known, vs)
		}
		err = m.view.Histories(sel.paths(), known, func(path store.Path, own []store.Version) error {
			e, ok, err := m.taken(path, own, sel[path])
			if ok {
				of = append(of, e)
			}
			return err
		})
		return nil, err
	})
	return title, of, err
}

// taken is what the selected versions of a path made of it; false: nothing else than it
// was.
func (m *maker) taken(path store.Path, own []store.Version, sel map[uint64]*store.Version) (e Elsewhere, ok bool, err error) {
	first, last := -1, -1
	for i, v := range own {
		if sel[v.Seq] != nil {
			last = i
			if first < 0 {
				first = i
			}
		}
	}
	if first < 0 || store.OwnFile(path) {
		return e, false, nil
	}
	was, err := m.described(own, last)
	if err != nil {
		return e, false, err
	}
	e.Path = path
	want := carriedAway(own[first])
	switch {
	case first > 0:
		want, err = m.described(own, first-1)
		if err != nil {
			return e, false, err
		}
	case !want.absent() || began(own[first]) || madeLater(own, own[first]):
	default:
		e.Lost = "what was there before is not known"
		return e, true, nil
	}
	if was.equal(want) {
		return e, false, nil
	}
	for _, s := range []struct {
		of state
		to *Side
	}{{was, &e.Was}, {want, &e.Want}} {
		*s.to = Side{Mode: s.of.mode, Target: s.of.target}
		if !s.of.regular() || s.of.size == 0 && s.of.blob == (store.Hash{}) {
			continue
		}
		s.to.Content, err = m.store.Content(s.of.blob)
		if err != nil {
			e.Was, e.Want, e.Lost = Side{}, Side{}, cmp.Or(s.of.noContent, "the content is not kept")
			return e, true, nil
		}
	}
	return e, true, nil
}
