package actions

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"cachebro/store"
	"cachebro/store/leaf/cache"
	"cachebro/store/onwire"
	"cachebro/store/undo"
	"cachebro/store/wire"
)

const maxMarks = 8 << 20

// planMarks records what a finished plan did to each path, by cells.
type planMarks map[store.Path][]store.Return

// of returns what the plan did to a cell of a path.
func (m planMarks) of(p store.Path, kind uint8) (store.Return, bool) {
	for _, r := range m[p] {
		if r.Kind == kind || r.Kind == 0 {
			return r, true
		}
	}
	return store.Return{}, false
}

func newMarks() *cache.Cache[string, planMarks] {
	return cache.New[string](maxMarks, sizeOfMarks)
}

func sizeOfMarks(m planMarks) int {
	n := 64
	for p, all := range m {
		n += 40 + len(p) + 96*len(all)
	}
	return n
}

// marksOf returns what a finished plan did to each path. Paths for which a step failed are left
// out.
func (s *Service) marksOf(id string) (planMarks, error) {
	if m, ok := s.marks.Get(id); ok {
		return m, nil
	}
	p, err := s.store.Journal.Plan(id)
	if err != nil {
		return nil, err
	}
	m := make(planMarks, len(p.Returns))
	for _, r := range p.Returns {
		m[r.Path] = append(m[r.Path], r)
	}
	done := make(map[int]bool, len(p.Done))
	for _, n := range p.Done {
		done[n] = true
	}
	for _, step := range p.Steps {
		if !done[step.N] {
			delete(m, step.Path)
		}
	}
	for _, f := range p.Failed {
		delete(m, f.Path)
	}
	s.marks.Put(id, m)
	return m, nil
}

// takenBack finds the changes that later plans undid. It serves one query.
type takenBack struct {
	s     *Service
	v     *store.View
	plans []store.Plan // heads of the plans that have ended, the newest first
	seqs  map[string]uint64
}

func (s *Service) newTakenBack(v *store.View) (*takenBack, error) {
	all, err := s.store.Journal.Plans()
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(p store.Plan) bool { return p.Finished == 0 })
	return &takenBack{s: s, v: v, plans: all, seqs: map[string]uint64{}}, nil
}

// change is one change of a path: it led from version before to version seq. Several actions may have
// made the versions between them; own reports whether one of these belongs to the change.
type change struct {
	path        store.Path
	before, seq uint64
	own         func(uint64) bool
}

// undoneBy returns the plans that undid a change, completely or in part, newest first. It returns
// nothing if the change was not undone, or was redone since.
func (t *takenBack) undoneBy(c change) ([]wire.TakenBack, error) {
	before, err := t.version(c.before)
	if err != nil {
		return nil, err
	}
	now, err := t.version(c.seq)
	if err != nil {
		return nil, err
	}
	existed := !undo.SameCell(store.CellEntry, before, store.Version{})
	exists := !undo.SameCell(store.CellEntry, now, store.Version{})
	var out []wire.TakenBack
	whole := true // so far, every cell that the change set was undone completely
	for _, kind := range []uint8{store.CellEntry, store.CellContent, store.CellMeta} {
		by, err := t.cellUndoneBy(c, kind, now)
		if err != nil {
			return nil, err
		}
		complete := len(by) > 0 && by[len(by)-1].Whole()
		if kind == store.CellEntry && complete {
			return by, nil // together with the name, everything else was undone
		}
		set := existed != exists && kind == store.CellEntry ||
			existed && exists && !undo.SameCell(kind, before, now)
		whole = whole && (complete || !set)
		out = append(out, by...)
	}
	return merged(out, whole), nil
}

// merged merges the plans that undid single cells, and sorts them, newest first. whole reports whether
// they undid the change completely.
func merged(all []wire.TakenBack, whole bool) []wire.TakenBack {
	slices.SortStableFunc(all, func(a, b wire.TakenBack) int { return cmp.Compare(b.Seq, a.Seq) })
	out := slices.CompactFunc(all, func(a, b wire.TakenBack) bool { return a.Plan == b.Plan })
	if last := len(out) - 1; last >= 0 && !whole {
		out[last].Part = true
	}
	return out
}

// cellUndoneBy is undoneBy for one cell of the path. now is the version after the change.
func (t *takenBack) cellUndoneBy(c change, kind uint8, now store.Version) ([]wire.TakenBack, error) {
	var out []wire.TakenBack
	limit, undone := ^uint64(0), map[string]bool{} // plans that were themselves undone
	for _, plan := range t.plans {
		if plan.Seq < c.seq {
			break // this plan and the rest are older than the change
		}
		m, err := t.s.marksOf(plan.ID)
		if err != nil {
			return nil, err
		}
		r, ok := m.of(c.path, kind)
		if !ok || r.Was <= c.before || r.Was >= limit || undone[plan.ID] {
			continue // the plan did not set the cell, or the change did not
		}
		if r.Made {
			if r.Took <= c.before || r.Took > c.seq || !c.own(r.Took) {
				if plan.Of != "" {
					undone[plan.Of] = true
				}
				continue
			}
			out, err = t.add(out, plan, r)
			if err != nil || len(r.Edits) == 0 && !r.Part {
				return out, err
			}
			continue
		}
		restoredBefore, err := t.restored(r.Was, c.path, kind, r.Back)
		if err != nil {
			return nil, err
		}
		if restoredBefore {
			continue // an earlier plan had already restored this state
		}
		restoredByChange, err := t.restored(c.seq, c.path, kind, r.Back)
		if err != nil || restoredByChange {
			return out, err // the change itself had restored this state, so the plan redid the change
		}
		back, err := t.version(r.Back)
		if err != nil {
			return nil, err
		}
		if r.Back <= c.before || r.Back < c.seq && !undo.SameCell(kind, back, now) {
			return t.add(out, plan, r)
		}
		limit = r.Back // plans made at or after this version no longer count
	}
	return out, nil
}

// version returns a version, or the zero Version for number 0 and for a version that is no longer kept.
func (t *takenBack) version(seq uint64) (store.Version, error) {
	if seq == 0 {
		return store.Version{}, nil
	}
	v, err := t.v.Version(seq)
	if errors.Is(err, store.ErrNotFound) {
		return store.Version{}, nil
	}
	return v, err
}

// restored reports whether a plan made version seq and gave the cell of a path the value that it had
// at version back.
func (t *takenBack) restored(seq uint64, p store.Path, kind uint8, back uint64) (bool, error) {
	v, err := t.version(seq)
	if err != nil || v.Plan == "" {
		return false, err
	}
	m, err := t.s.marksOf(v.Plan)
	r, ok := m.of(p, kind)
	return ok && !r.Made && r.Back == back, err
}

func (t *takenBack) add(out []wire.TakenBack, plan store.Plan, r store.Return) ([]wire.TakenBack, error) {
	seq, ok := t.seqs[plan.ID]
	if !ok {
		if err := t.v.Each(store.Filter{Plan: plan.ID, Baselines: true}, func(o store.Version) bool { seq = o.Seq; return false }); err != nil {
			return nil, err
		}
		t.seqs[plan.ID] = seq
	}
	return append(out, wire.TakenBack{Plan: plan.ID, Kind: plan.Kind, Seq: seq, Edits: r.Edits, Part: r.Part}), nil
}

// planSum adds up the plans that undid files of an action.
type planSum struct {
	byPlan map[string]*wire.TakenBack
	whole  int // files that were undone completely
}

func (u *planSum) add(by []wire.TakenBack, files int) {
	for _, b := range by {
		if u.byPlan == nil {
			u.byPlan = map[string]*wire.TakenBack{}
		}
		x := u.byPlan[b.Plan]
		if x == nil {
			x = &wire.TakenBack{Plan: b.Plan, Kind: b.Kind, Seq: b.Seq}
			u.byPlan[b.Plan] = x
		}
		if x.Files += files; !b.Whole() {
			x.Part = true
		}
	}
	if len(by) > 0 && by[len(by)-1].Whole() {
		u.whole += files
	}
}

func (u *planSum) fill(a *wire.Action) {
	for _, x := range u.byPlan {
		a.TakenBack = append(a.TakenBack, *x)
	}
	slices.SortFunc(a.TakenBack, func(x, y wire.TakenBack) int { return cmp.Compare(y.Seq, x.Seq) })
	a.Back = a.Count > 0 && u.whole == a.Count && !a.Least
}

// takenBackOf answers a request about one change of one file.
func (s *Service) takenBackOf(_ context.Context, q wire.TakenBackQuery) (out wire.TakenBackAnswer, body []byte, err error) {
	p, err := s.paths.Clean(q.Path)
	if err != nil {
		return out, nil, err
	}
	err = s.store.View(func(v *store.View) error {
		t, err := s.newTakenBack(v)
		if err != nil {
			return err
		}
		out.By, err = t.undoneBy(change{p, q.Before, q.Seq, func(uint64) bool { return true }})
		return err
	})
	return out, nil, onwire.Error(err)
}
