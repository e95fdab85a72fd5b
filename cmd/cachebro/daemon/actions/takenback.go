package actions

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"cachebro/store"
	"cachebro/store/leaf/cache"
	"cachebro/store/onwire"
	"cachebro/store/wire"
)

const maxMarks = 8 << 20

// planMarks records what a finished plan did to each path.
type planMarks map[store.Path]store.Return

func newMarks() *cache.Cache[string, planMarks] {
	return cache.New[string](maxMarks, sizeOfMarks)
}

func sizeOfMarks(m planMarks) int {
	n := 64
	for p := range m {
		n += 120 + len(p)
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
		m[r.Path] = r
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

// undoneBy returns the plans that undid a change of a path, completely or in part, newest first. The
// change led from version before to version seq. undoneBy returns nothing if the change was not undone,
// or was redone since. own reports whether a version between before and seq belongs to the change.
func (t *takenBack) undoneBy(p store.Path, before, seq uint64, own func(uint64) bool) ([]wire.TakenBack, error) {
	var out []wire.TakenBack
	limit, undone := ^uint64(0), map[string]bool{} // plans that were themselves undone
	for _, plan := range t.plans {
		if plan.Seq < seq {
			break // this plan and the rest are older than the change
		}
		m, err := t.s.marksOf(plan.ID)
		if err != nil {
			return nil, err
		}
		r, ok := m[p]
		if !ok || r.Was < seq || r.Was >= limit || undone[plan.ID] {
			continue
		}
		if r.Made {
			if r.Took <= before || r.Took > seq || !own(r.Took) {
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
		restoredBefore, err := t.restored(r.Was, p, r.Back)
		if err != nil {
			return nil, err
		}
		if restoredBefore {
			continue // an earlier plan had already restored this state
		}
		restoredByChange, err := t.restored(seq, p, r.Back)
		if err != nil || restoredByChange {
			return out, err // the change itself had restored this state, so the plan redid the change
		}
		if r.Back < seq {
			return t.add(out, plan, r)
		}
		limit = r.Back // plans made at or after this version no longer count
	}
	return out, nil
}

// restored reports whether a plan made version seq and restored the state that a path had at
// version back.
func (t *takenBack) restored(seq uint64, p store.Path, back uint64) (bool, error) {
	v, err := t.v.Version(seq)
	if errors.Is(err, store.ErrNotFound) || err == nil && v.Plan == "" {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	m, err := t.s.marksOf(v.Plan)
	r, ok := m[p]
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
		if err == nil {
			out.By, err = t.undoneBy(p, q.Before, q.Seq, func(uint64) bool { return true })
		}
		return err
	})
	return out, nil, onwire.Error(err)
}
