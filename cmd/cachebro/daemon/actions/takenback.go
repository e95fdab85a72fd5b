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

// marksOf returns what a finished plan did to each path. Cells of paths for which a step failed are
// left out, also under the other names of the file.
func (s *Service) marksOf(id string) (planMarks, error) {
	if m, ok := s.marks.Get(id); ok {
		return m, nil
	}
	p, err := s.store.Journal.Plan(id)
	if err != nil {
		return nil, err
	}
	done := make(map[int]bool, len(p.Done))
	for _, n := range p.Done {
		done[n] = true
	}
	failed := map[store.Path]bool{}
	for _, step := range p.Steps {
		if !done[step.N] {
			failed[step.Path] = true
		}
	}
	for _, f := range p.Failed {
		failed[f.Path] = true
	}
	type cell struct { // the newest version identifies a cell under all names of the file
		kind uint8
		was  uint64
	}
	unset := map[cell]bool{}
	for _, r := range p.Returns {
		if failed[r.Path] && r.Was != 0 {
			unset[cell{r.Kind, r.Was}] = true
		}
	}
	m := make(planMarks, len(p.Returns))
	for _, r := range p.Returns {
		if !failed[r.Path] && !unset[cell{r.Kind, r.Was}] {
			m[r.Path] = append(m[r.Path], r)
		}
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
	marks map[string]planMarks // by id; the cache of the service cannot hold those of a large plan
}

func (s *Service) newTakenBack(v *store.View) (*takenBack, error) {
	all, err := s.store.Journal.Plans()
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(p store.Plan) bool { return p.Finished == 0 })
	return &takenBack{s: s, v: v, plans: all, seqs: map[string]uint64{}, marks: map[string]planMarks{}}, nil
}

// marksOf is like Service.marksOf, but reads each plan only once per query. A query asks for the marks
// of a plan once for each file.
func (t *takenBack) marksOf(id string) (planMarks, error) {
	if m, ok := t.marks[id]; ok {
		return m, nil
	}
	m, err := t.s.marksOf(id)
	if err == nil {
		t.marks[id] = m
	}
	return m, err
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
	both := existed && exists
	var out []wire.TakenBack
	whole := true // so far, every cell that the change set was undone completely
	for _, kind := range []uint8{store.CellEntry, store.CellContent, store.CellMeta} {
		stayed := both && undo.SameCell(kind, before, now)
		if stayed && kind != store.CellEntry {
			continue // a rename changes the entry of a path that existed before
		}
		by, err := t.cellUndoneBy(c, kind, now)
		if err != nil {
			return nil, err
		}
		complete := wire.TakenBackWhole(by)
		if kind == store.CellEntry && complete {
			return by, nil // together with the name, everything else was undone
		}
		set := both && !stayed
		if kind == store.CellEntry {
			set = existed != exists
		}
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
	m, err := t.marksAt(now)
	if err != nil {
		return nil, err
	}
	own, byPlan := m.of(c.path, kind)
	if now.Plan != "" && m != nil && !byPlan {
		return nil, nil // the change was made by a plan, which did not set the cell
	}
	if byPlan && !own.Made {
		return t.planUndoneBy(c, kind, own)
	}
	x := &passage{t: t, change: c, kind: kind, first: c.before + 1, last: c.seq, now: now}
	if err := x.follow(); err != nil {
		return nil, err
	}
	return undoneAfter(x.events), nil
}

// planUndoneBy is cellUndoneBy for a change that was itself made by a plan. own is what that plan did
// to the cell.
func (t *takenBack) planUndoneBy(c change, kind uint8, own store.Return) ([]wire.TakenBack, error) {
	was, err := t.effective(c.path, kind, own.Was)
	if err != nil {
		return nil, err
	}
	now, err := t.effective(c.path, kind, own.Back)
	if err != nil || was == now {
		return nil, err
	}
	// The plan took the newer version out, or brought it back.
	newer := max(was, now)
	x := &passage{t: t, change: c, kind: kind, first: newer, last: newer}
	if err := x.follow(); err != nil {
		return nil, err
	}
	var out []wire.TakenBack
	for _, e := range x.events {
		inEffect := wire.TakenBackWhole(e.by) == (was > now)
		switch {
		case e.plan.Seq < c.seq: // older than the change
		case inEffect:
			out = nil
		case out == nil:
			b, err := t.mark(e.plan, e.did)
			if err != nil {
				return nil, err
			}
			out = []wire.TakenBack{b}
		}
	}
	return out, nil
}

// effective returns the version whose value a cell had after version seq. It is seq itself, unless a
// plan made that version and restored an earlier value. It is 0 if the path did not exist.
func (t *takenBack) effective(p store.Path, kind uint8, seq uint64) (uint64, error) {
	for {
		v, err := t.version(seq)
		if err != nil {
			return 0, err
		}
		m, err := t.marksAt(v)
		if err != nil {
			return 0, err
		}
		r, ok := m.of(p, kind)
		if !ok || r.Made || r.Back >= seq {
			return seq, nil
		}
		seq = r.Back
	}
}

// marksAt returns what the plan that made version v did, or nil if no plan did or the plan is no longer
// kept.
func (t *takenBack) marksAt(v store.Version) (planMarks, error) {
	if v.Plan == "" {
		return nil, nil
	}
	m, err := t.marksOf(v.Plan)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return m, err
}

// passage follows what a change did to one cell through the plans that were carried out after it.
type passage struct {
	t           *takenBack
	change      change
	kind        uint8
	first, last uint64        // versions of the change
	now         store.Version // the last of them; zero if there is only one
	events      []planned     // the oldest first
}

// planned is a plan that set the cell.
type planned struct {
	plan store.Plan
	did  store.Return
	by   []wire.TakenBack // the plans that had undone the change after this one, newest first
}

func (x *passage) follow() error {
	for _, plan := range x.t.plans {
		if plan.Seq < x.last {
			break // this plan and the rest are older than the change
		}
		m, err := x.t.marksOf(plan.ID)
		if err != nil {
			return err
		}
		if r, ok := m.of(x.change.path, x.kind); ok && r.Was >= x.first {
			x.events = append(x.events, planned{plan: plan, did: r})
		}
	}
	slices.Reverse(x.events)
	for i := range x.events {
		by, err := x.after(i)
		if err != nil {
			return err
		}
		x.events[i].by = by
	}
	return nil
}

// after returns the plans that had undone the change after event i.
func (x *passage) after(i int) ([]wire.TakenBack, error) {
	e := x.events[i]
	present := undoneAfter(x.events[:i])
	if e.did.Made {
		if c := x.change; e.did.Took <= c.before || e.did.Took > c.seq || !c.own(e.did.Took) {
			// A redo that merges brings back what the other plan undid.
			return slices.DeleteFunc(slices.Clone(present), func(b wire.TakenBack) bool { return b.Plan == e.plan.Of }), nil
		}
		b, err := x.t.mark(e.plan, e.did)
		switch {
		case err != nil || wire.TakenBackWhole(present):
			return present, err
		case b.Whole():
			return []wire.TakenBack{b}, nil
		}
		return append([]wire.TakenBack{b}, present...), nil
	}
	restored, err := x.t.effective(x.change.path, x.kind, e.did.Back)
	if err != nil {
		return nil, err
	}
	older := slices.IndexFunc(x.events[:i], func(o planned) bool { return o.plan.Seq >= restored })
	if older < 0 {
		older = i
	}
	then := undoneAfter(x.events[:older])
	has, err := x.contains(restored)
	if err != nil {
		return nil, err
	}
	if has && !wire.TakenBackWhole(then) {
		return then, nil
	}
	if wire.TakenBackWhole(present) {
		return present, nil // an earlier plan had undone it already
	}
	b, err := x.t.mark(e.plan, e.did)
	return []wire.TakenBack{b}, err
}

// contains reports whether the value that the cell had at version seq includes the change, if no plan
// had undone it until then.
func (x *passage) contains(seq uint64) (bool, error) {
	if seq < x.first || seq >= x.last {
		return seq >= x.last, nil
	}
	v, err := x.t.version(seq)
	if err != nil || !undo.SameCell(x.kind, v, x.now) {
		return false, err
	}
	return x.stayed(seq)
}

// stayed reports whether the path was not without a file between version seq and the end of the change.
// A file that was made there since is another one.
func (x *passage) stayed(seq uint64) (bool, error) {
	for at := x.last; x.kind == store.CellEntry && at > seq+1; {
		v, found, err := x.t.v.AtSeq(x.change.path, at-1)
		switch {
		case err != nil:
			return false, err
		case !found || v.Seq <= seq:
			return true, nil
		case v.Deleted():
			return false, nil
		}
		at = v.Seq
	}
	return true, nil
}

// undoneAfter returns the plans that had undone the change after the last of these events.
func undoneAfter(events []planned) []wire.TakenBack {
	if len(events) == 0 {
		return nil
	}
	return events[len(events)-1].by
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

// mark describes a plan that undid a change.
func (t *takenBack) mark(plan store.Plan, r store.Return) (wire.TakenBack, error) {
	seq, ok := t.seqs[plan.ID]
	if !ok {
		err := t.v.Each(store.Filter{Plan: plan.ID, Baselines: true}, func(o store.Version) bool {
			if inNoAction(o) {
				return true
			}
			seq = o.Seq
			return false
		})
		if err != nil {
			return wire.TakenBack{}, err
		}
		t.seqs[plan.ID] = seq
	}
	return wire.TakenBack{Plan: plan.ID, Kind: plan.Kind, Seq: seq, Edits: r.Edits, Part: r.Part}, nil
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
	if wire.TakenBackWhole(by) {
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
