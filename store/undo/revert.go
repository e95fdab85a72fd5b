package undo

import (
	"fmt"
	"maps"
	"slices"

	"cachebro/store"
)

// Revert plans to give one file back an earlier version: the one of steps back
// (states, not touches), or, with version > 0, that one. Steps never lead to where the
// file was gone. ErrNotFound: there is none.
func (p Planner) Revert(path store.Path, steps int, version uint64) (*Draft, error) {
	return p.make(store.PlanRevert, func(m *maker) ([]goal, bool, error) {
		goals, err := m.revertGoals(path, steps, version)
		return goals, true, err
	})
}

func (m *maker) revertGoals(path store.Path, steps int, version uint64) ([]goal, error) {
	cur, found, err := m.view.Current(path)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("no version of %q is known: %w", string(path), store.ErrNotFound)
	}
	target, err := m.revertTarget(path, steps, version)
	if err != nil {
		return nil, err
	}
	have, want := stateOf(cur), stateOf(target)
	if want.dir() || have.dir() {
		return nil, fmt.Errorf("%q is a directory; undo or restore brings those back", string(path))
	}
	if want.absent() {
		want.seq = target.Seq
	}
	m.plan.Title = fmt.Sprintf("%s as in version %d", path, target.Seq)
	if target.Path != path {
		want.seq = 0
	}
	if have.equal(want) {
		return nil, nil
	}
	g := goal{path: path, have: have, want: want, made: target.Path != path, since: target.Seq + 1}
	if g.made {
		m.unlent(&g)
	}
	return m.follow([]goal{g}, 0)
}

func (m *maker) revertTarget(path store.Path, steps int, version uint64) (store.Version, error) {
	if version > 0 {
		return m.view.Version(version)
	}
	vs, err := m.view.History(path, true)
	if err != nil {
		return store.Version{}, err
	}
	// Also what the path held before another file came to it.
	if len(vs) > 0 && vs[0].Path == path {
		own, err := m.view.History(path, false)
		if err != nil {
			return store.Version{}, err
		}
		vs = own
	}
	if steps <= 0 {
		steps = 1
	}
	v, i := m.effective(vs, len(vs)-1)
	at := stateOf(v)
	for i > 0 {
		v, i = m.effective(vs, i-1)
		if v.Op == store.OpMoved && v.Path != path {
			continue
		}
		st := stateOf(v)
		if st.absent() || st.equal(at) { // that it was gone for a while is no step
			continue
		}
		at = st
		if steps == 1 {
			return v, nil
		}
		steps--
	}
	return store.Version{}, fmt.Errorf("%q has no version that many steps back: %w", string(path), store.ErrNotFound)
}

// effective is the version whose state vs[i] is, and where it stands: what a plan has
// brought back counts as the version that it brought back. So a second step back goes
// on from where the first one led to.
func (m *maker) effective(vs []store.Version, i int) (store.Version, int) {
	c := &chain{m, vs}
	v, j := c.at(i)
	switch {
	case j < 0: // a plan removed it
		return vs[i], i
	case v.Plan != "" && c.returns(v.Plan)[v.Path].Made: // as under an earlier name
		for k := j - 1; k >= 0; k-- {
			if vs[k].Plan == "" && stateOf(vs[k]).equal(stateOf(v)) {
				return vs[k], k
			}
		}
	}
	return v, j
}

// Restore plans to make paths (with all below them; none: the whole tree)
// what they were when seq was the newest version. Only what differs is touched.
func (p Planner) Restore(paths []store.Path, seq uint64) (*Draft, error) {
	return p.make(store.PlanRestore, func(m *maker) ([]goal, bool, error) {
		goals, err := m.restoreGoals(paths, seq)
		return goals, true, err
	})
}

func (m *maker) restoreGoals(paths []store.Path, seq uint64) ([]goal, error) {
	m.plan.Title = fmt.Sprintf("as of version %d", seq)
	if seq == 0 {
		m.plan.Title = "as it was before anything was recorded"
	} else if v, err := m.view.Version(seq); err == nil {
		m.plan.Title = fmt.Sprintf("as of %s (version %d)", v.When().Format("2006-01-02 15:04:05"), seq)
	}
	changed := map[store.Path]bool{}
	err := m.view.ChangedAfter(seq, func(p store.Path) {
		if len(paths) == 0 || slices.ContainsFunc(paths, func(dir store.Path) bool { return p.Inside(dir) }) {
			changed[p] = true
		}
	})
	if err != nil {
		return nil, err
	}
	var goals, same []goal
	err = m.view.Histories(slices.Sorted(maps.Keys(changed)), nil, func(path store.Path, own []store.Version) error {
		g, ok, err := m.restoreGoal(path, own, seq)
		if err != nil {
			return err
		}
		if store.OwnFile(path) {
			g.want = state{}
		}
		g.retime = g.want.retimed(g.have)
		switch {
		case ok && !g.idle():
			goals = append(goals, g)
		case ok:
			same = append(same, g)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	goals = withLent(goals, same)
	goals, err = m.relocate(goals)
	if err != nil {
		return nil, err
	}
	if err := m.nameDeparted(goals); err != nil {
		return nil, err
	}
	return m.follow(goals, seq)
}

// restoreGoal decides about one path, of which these versions are known.
func (m *maker) restoreGoal(path store.Path, own []store.Version, seq uint64) (g goal, ok bool, err error) {
	if len(own) == 0 {
		return g, false, nil
	}
	for i, v := range own {
		if v.Seq > seq && notKept(v) && (v.Excluded() || i == 0) {
			m.lose(store.Conflict{Path: path, Why: v.NoContent, Actor: v.Actor, Time: v.Time})
			return g, false, nil
		}
	}
	g = goal{path: path, have: stateOf(own[len(own)-1]), since: seq + 1, moved: moved(own)}
	for i, then := range slices.Backward(own) {
		if then.Seq <= seq {
			g.want, err = m.described(own, i)
			g.other = another(own, i)
			return g, true, err
		}
	}
	switch first := own[0]; {
	case first.Op == store.OpBaseline || first.Op == store.OpSeen || first.Op == store.OpOutside:
		// It was there before anybody looked: what was found is what was.
		g.want, err = m.described(own, 0)
		if err != nil {
			return g, false, err
		}
		g.other, g.unseen = another(own, 0), true
	case !carriedAway(first).absent():
		g.want, g.unseen = carriedAway(first), true
	case began(first) || madeLater(own, first):
	default:
		m.loseBefore(first)
		return g, false, nil
	}
	return g, true, nil
}
