package store

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// PlanRevert plans to give one file back an earlier version: the one of steps
// back (states, not touches), or, with version > 0, that one.
func (s *Store) PlanRevert(path Path, steps int, version uint64, secure Secure) (*Plan, error) {
	p := &Plan{Kind: PlanRevert, Seq: s.Seq(), secure: secure}
	cur, found, err := s.Current(path)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("no version of %q is known: %w", string(path), ErrNotFound)
	}
	target, err := s.revertTarget(path, steps, version)
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
	p.Title = fmt.Sprintf("%s as in version %d", path, target.Seq)
	if target.Path != path {
		want.seq = 0
	}
	if have.equal(want) {
		return p, nil
	}
	goals := []goal{{path: path, have: have, want: want, made: target.Path != path, since: target.Seq + 1}}
	if goals[0].made {
		p.unlent(&goals[0])
	}
	goals, err = s.follow(goals, 0)
	if err == nil {
		goals, err = s.possible(p, goals, false)
	}
	if err != nil {
		return nil, err
	}
	return p, s.steps(p, goals)
}

func (s *Store) revertTarget(path Path, steps int, version uint64) (Version, error) {
	if version > 0 {
		return s.Version(version)
	}
	vs, err := s.History(path, true)
	if err != nil {
		return Version{}, err
	}
	// Also what the path held before another file came to it.
	if len(vs) > 0 && vs[0].Path == path {
		own, err := s.History(path, false)
		if err != nil {
			return Version{}, err
		}
		vs = own
	}
	if steps <= 0 {
		steps = 1
	}
	at := stateOf(vs[len(vs)-1])
	for i := len(vs) - 2; i >= 0; i-- {
		if vs[i].Op == OpMoved && vs[i].Path != path {
			continue
		}
		if st := stateOf(vs[i]); !st.equal(at) {
			if at = st; steps == 1 {
				return vs[i], nil
			}
			steps--
		}
	}
	return Version{}, fmt.Errorf("%q has no version that many steps back: %w", string(path), ErrNotFound)
}

// PlanRestore plans to make paths (with all below them; none: the whole tree)
// what they were when seq was the newest version. Only what differs is touched.
func (s *Store) PlanRestore(paths []Path, seq uint64, secure Secure) (*Plan, error) {
	p := &Plan{Kind: PlanRestore, Seq: s.Seq(), secure: secure, Title: fmt.Sprintf("as of version %d", seq)}
	if seq == 0 {
		p.Title = "as it was before anything was recorded"
	} else if v, err := s.Version(seq); err == nil {
		p.Title = fmt.Sprintf("as of %s (version %d)", v.When().Format("2006-01-02 15:04:05"), seq)
	}
	changed := map[Path]bool{}
	err := s.scan(seq+1, false, func(v Version) bool {
		if len(paths) == 0 || slices.ContainsFunc(paths, func(dir Path) bool { return inside(v.Path, dir) }) {
			changed[v.Path] = true
		}
		return true
	}, nil)
	if err != nil {
		return nil, err
	}
	var goals []goal
	one := func(path Path, own []Version) error {
		g, ok, err := s.restoreGoal(p, path, own, seq)
		if err != nil {
			return err
		}
		if ownFile(path) {
			g.want = state{}
		}
		if ok && !g.idle() {
			goals = append(goals, g)
		}
		return nil
	}
	err = s.View(func(v *View) error { return v.Histories(slices.Sorted(maps.Keys(changed)), nil, one) })
	if err != nil {
		return nil, err
	}
	if goals, err = s.relocate(p, goals); err == nil {
		goals, err = s.follow(goals, seq)
	}
	if err == nil {
		goals, err = s.possible(p, goals, false)
	}
	if err != nil {
		return nil, err
	}
	return p, s.steps(p, goals)
}

// restoreGoal decides about one path, of which these versions are known.
func (s *Store) restoreGoal(p *Plan, path Path, own []Version, seq uint64) (g goal, ok bool, err error) {
	if len(own) == 0 {
		return g, false, nil
	}
	for _, v := range own {
		if v.Seq > seq && notKept(v) {
			p.Lost = append(p.Lost, Conflict{Path: path, Why: v.NoContent, Actor: v.Actor, Time: v.Time})
			return g, false, nil
		}
	}
	g = goal{path: path, have: stateOf(own[len(own)-1]), since: seq + 1, moved: moved(own)}
	for i, then := range slices.Backward(own) {
		if then.Seq <= seq {
			g.want, err = s.described(own, i)
			g.other = another(own, i)
			return g, true, err
		}
	}
	switch first := own[0]; {
	case first.Op == OpBaseline || first.Op == OpSeen || first.Op == OpOutside:
		// It was there before anybody looked: what was found is what was.
		g.want, g.other, g.unseen = stateOf(first), another(own, 0), true
	case !carriedAway(first).absent():
		g.want, g.unseen = carriedAway(first), true
	case began(first) || madeLater(own, first):
	default:
		p.Lost = append(p.Lost, Conflict{Path: path, Why: "what was there before is not known", Actor: first.Actor, Time: first.Time})
		return g, false, nil
	}
	return g, true, nil
}

// SessionStart is the newest version from before a session began.
func (s *Store) SessionStart(id SessionID) (uint64, error) {
	ses, found, err := s.Session(id)
	if err != nil {
		return 0, err
	}
	if found && ses.StartSeq > 0 {
		return ses.StartSeq, nil
	}
	vs, _, err := s.Log(Filter{Session: id, Oldest: true, Limit: 1, Baselines: true})
	if err != nil {
		return 0, err
	}
	if len(vs) == 0 {
		return 0, errors.Join(fmt.Errorf("session %q has changed nothing", string(id)), ErrNotFound)
	}
	return vs[0].Seq - 1, nil
}
