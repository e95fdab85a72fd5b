package undo

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"cachebro/store"
	"cachebro/store/leaf/text"
)

var errStop = errors.New("stop")

// ErrOldPlan means that a plan of an older program cannot be undone. Restore can return to the
// state before it.
var ErrOldPlan = errors.New("it does not list the entries and contents that it changed")

// Query selects what to undo.
type Query struct {
	// Select selects the versions: session, prompt, tool call, pid, command, since, plan. Its
	// limit, order and Path are ignored.
	Select store.Filter
	// What is a description for the user of the versions that Select.Match selects.
	What string
	// Last selects only the newest action that was not undone, among those that Select selects.
	Last bool
	// Action finds, for Last, the action of the log that a version belongs to.
	Action func(*store.View, store.Version) (Action, error)
	// In restricts the paths.
	In Names
	// Merge undoes changes also in files that somebody else has changed since, if the lines do not
	// overlap. Force undoes them in any case.
	Merge, Force bool
}

// Action is one action of the log.
type Action struct {
	Has         func(store.Version) bool // reports whether a version belongs to the action
	First, Last uint64                   // version numbers
	What        string                   // description for the user
}

// Undo plans to undo what a query selects. A path whose newest change is not selected is left
// alone, and is in Conflicts. Undo returns ErrNotFound if nothing is selected.
func (p Planner) Undo(q Query) (*Draft, error) {
	for tried := map[uint64]bool{}; ; {
		var sel selection
		d, err := p.make(store.PlanUndo, func(m *maker) (_ *aims, err error) {
			sel, m.plan.Title, err = m.selected(q, tried)
			if err != nil {
				return nil, err
			}
			if err := m.nameUnknown(sel, q.In.Paths); err != nil {
				return nil, err
			}
			a, err := m.takeOut(sel, q)
			if q.Last && a != nil && a.onlyTimes() {
				a = nil // a change of times only does not count as an action
			}
			return a, err
		})
		if err != nil || !q.Last || len(d.Steps)+len(d.Conflicts) > d.inUse {
			return d, err
		}
		named, err := p.alreadyListed(d)
		if err != nil || !named {
			return d, err
		}
		// Nothing can be done about the last action: it removed everything that it made, only directories
		// that others use are left of it, or an earlier undo of it has already listed everything that is
		// lost. Try the action before it.
		for seq := range sel {
			tried[seq] = true
		}
	}
}

// alreadyListed reports whether an earlier undo of the draft's action listed all that the draft
// lists as lost.
func (p Planner) alreadyListed(d *Draft) (bool, error) {
	if len(d.Lost) == 0 {
		return true, nil
	}
	plans, err := p.Store.Journal.Plans()
	if err != nil {
		return false, err
	}
	for _, head := range plans {
		if head.Finished == 0 || head.Undoes != d.Undoes {
			continue
		}
		whole, err := p.Store.Journal.Plan(head.ID)
		if err != nil {
			return false, err
		}
		lost := func(x store.Conflict) bool {
			return slices.ContainsFunc(head.Lost, func(o store.Conflict) bool { return o.Path == x.Path && o.Why == x.Why })
		}
		if !refused(&whole) && !slices.ContainsFunc(d.Lost, func(x store.Conflict) bool { return !lost(x) }) {
			return true, nil
		}
	}
	return false, nil
}

// nameUnknown lists requested paths about which the history contains nothing. They may be ignored
// files that nobody has read.
func (m *maker) nameUnknown(sel selection, paths []store.Path) error {
	for _, path := range paths {
		if slices.ContainsFunc(sel.paths(), func(o store.Path) bool { return o.Inside(path) }) {
			continue
		}
		_, found, err := m.view.Current(path)
		if err != nil {
			return err
		}
		if found {
			continue
		}
		if err := m.view.Live(path, func(store.Version) error { found = true; return errStop }); err != nil && !errors.Is(err, errStop) {
			return err
		}
		if !found {
			m.lose(store.Conflict{Path: path, Why: "nothing is known of it"})
		}
	}
	return nil
}

// Redo plans to redo what a finished plan undid. "" means the last plan that was not completely
// redone yet. Redo returns ErrNotFound if there is none.
func (p Planner) Redo(id string, merge, force bool) (*Draft, error) {
	if id != "" {
		return p.backOut("redo of: ", id, nil, merge, force)
	}
	for passed := map[string]bool{}; ; {
		id, merged, err := p.lastUndone(passed)
		if err != nil {
			return nil, err
		}
		d, err := p.backOut("redo of: ", id, merged, merge, force)
		if err != nil || len(d.Steps)+len(d.Conflicts)+len(d.Lost) > d.inUse {
			return d, err
		}
		passed[id] = true // nothing of that plan is left to redo
	}
}

// Rollback plans to undo what an unfinished plan has done so far. Later undos and redos then ignore
// that plan.
func (p Planner) Rollback(id string) (*Draft, error) {
	return p.backOut("rollback of: ", id, nil, false, false)
}

// backOut plans to undo what a plan did, except at the paths in done.
func (p Planner) backOut(title, id string, done map[store.Path]bool, merge, force bool) (*Draft, error) {
	of, err := p.Store.Journal.Head(id)
	if err != nil {
		return nil, err
	}
	return p.make(store.PlanRedo, func(m *maker) (*aims, error) {
		if of.Since == 0 {
			return nil, fmt.Errorf("plan %s was made by an older cachebro: %w", id, ErrOldPlan)
		}
		m.plan.Of, m.plan.Title = id, title+of.Title
		vs, err := m.all(store.Filter{Plan: id, Baselines: true})
		if err != nil {
			return nil, err
		}
		sel := selection{}
		for _, v := range vs {
			if !done[v.Path] {
				sel[v.Seq] = v
			}
		}
		return m.takeOut(sel, Query{Select: store.Filter{Plan: id}, Merge: merge, Force: force})
	})
}

// lastUndone returns the newest plan that can be redone, except those in passed. merged holds the
// paths that an earlier redo of that plan has already restored in a merge.
func (p Planner) lastUndone(passed map[string]bool) (id string, merged map[store.Path]bool, err error) {
	plans, err := p.Store.Journal.Plans()
	if err != nil {
		return "", nil, err
	}
	redone, newest := map[string]bool{}, true
	for _, of := range plans { // newest first
		if of.Finished == 0 {
			continue
		}
		whole, err := p.Store.Journal.Plan(of.ID)
		if err != nil {
			return "", nil, err
		}
		if refused(&whole) {
			continue
		}
		if of.Kind == store.PlanRedo {
			// Paths that this redo left alone may be redone with --merge or --force until something
			// else is undone.
			left := len(of.Conflicts)+len(of.Lost)+len(of.Failed) > 0
			if newest && left && !passed[of.Of] {
				merged, err = p.mergedBy(plans, of.Of)
				return of.Of, merged, err
			}
			newest = false
			redone[of.Of] = true
			continue
		}
		newest = false
		if redone[of.ID] || passed[of.ID] {
			continue
		}
		if !ofOwnFiles(&whole) {
			return of.ID, nil, nil
		}
	}
	return "", nil, fmt.Errorf("nothing to redo: %w", store.ErrNotFound)
}

// mergedBy returns the paths that redos of a plan restored in a merge. It goes through the finished
// plans from the newest on, and stops at the first one that is not a redo of that plan.
func (p Planner) mergedBy(plans []store.Plan, id string) (map[store.Path]bool, error) {
	merged := map[store.Path]bool{}
	for _, head := range plans { // newest first
		if head.Finished == 0 {
			continue
		}
		if head.Of != id {
			break
		}
		whole, err := p.Store.Journal.Plan(head.ID)
		if err != nil {
			return nil, err
		}
		made := map[store.Path]bool{}
		for _, r := range whole.Returns {
			made[r.Path] = made[r.Path] || r.Made
		}
		for _, s := range whole.Steps {
			if made[s.Path] && slices.Contains(whole.Done, s.N) {
				merged[s.Path] = true
			}
		}
	}
	return merged, nil
}

// refused reports whether the user was shown the plan and declined it.
func refused(p *store.Plan) bool {
	return len(p.Steps) > 0 && len(p.Done)+len(p.Failed) == 0
}

// ofOwnFiles reports whether the plan changed only cachebro's own files.
func ofOwnFiles(p *store.Plan) bool {
	return len(p.Steps) > 0 && !slices.ContainsFunc(p.Steps, func(s store.Step) bool { return !store.OwnFile(s.Path) })
}

// selection holds the versions to undo, by sequence number.
type selection map[uint64]*store.Version

func (s selection) paths() []store.Path {
	all := make([]store.Path, 0, len(s))
	for _, v := range s {
		all = append(all, v.Path)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// oldest returns the number of the oldest version, and a number above all others if there is none.
func (s selection) oldest() uint64 {
	oldest := ^uint64(0)
	for seq := range s {
		oldest = min(oldest, seq)
	}
	return oldest
}

// all returns the versions that a filter selects, oldest first.
func (m *maker) all(f store.Filter) (vs []*store.Version, err error) {
	f.Oldest = true
	err = m.view.Each(f, func(v store.Version) bool { vs = append(vs, &v); return true })
	return vs, err
}

// act reports whether an undo may select a version. It may select what an agent's own undo or
// restore changed, like everything else that the agent did. It may not select what a person's undo
// or restore changed, because only redo reverses that.
func act(v *store.Version) bool { return v.Plan == "" || v.Actor.Session != "" }

// selected returns the versions that a query selects, and their description. For a query with Last,
// it skips the actions in tried.
func (m *maker) selected(q Query, tried map[uint64]bool) (selection, string, error) {
	f := q.Select
	f.Path, f.Baselines = "", false
	title := m.describe(q)
	var last store.Version
	if q.Last {
		var err error
		last, err = m.lastAction(f, q.In, tried)
		if err != nil {
			return nil, "", err
		}
		of, err := q.Action(m.view, last)
		if err != nil {
			return nil, "", err
		}
		m.plan.Newest, title = last, of.What
		f.After, f.Before = max(f.After, of.First-1), of.Last+1
		f.Match = of.Has
	}
	var match func(store.Path) bool
	namesMatch := func(*store.Version) bool { return true }
	if q.In.Some() {
		match = q.In.Has
		namesMatch = func(v *store.Version) bool {
			otherMatches := v.From != "" && match(v.From) || v.To != "" && match(v.To)
			return otherMatches || match(v.Path)
		}
	}
	vs, err := m.all(f)
	if err != nil {
		return nil, "", err
	}
	if f.Plan == "" {
		vs = slices.DeleteFunc(vs, func(v *store.Version) bool { return !act(v) })
	}
	sel := make(selection, len(vs))
	for _, v := range vs {
		if namesMatch(v) {
			sel[v.Seq] = v
		}
	}
	m.requested, m.before = match, vs
	if q.Last {
		m.plan.Undoes = sel.oldest()
	}
	if len(sel) == 0 {
		return nil, "", fmt.Errorf("nothing to undo (%s): %w", title, store.ErrNotFound)
	}
	return sel, title, nil
}

// takeOut determines the value that each cell would have without the selected versions. A version
// by which a plan restored an earlier version counts as the earlier one, unless it is itself
// selected. For the redo of a plan, all versions of the plan are selected.
func (m *maker) takeOut(sel selection, q Query) (*aims, error) {
	paths, oldest := sel.paths(), sel.oldest()
	if m.requested != nil {
		// Earlier selected changes of a file are undone too, even if they were made under another
		// name.
		for _, v := range m.before {
			if sel[v.Seq] == nil {
				oldest = min(oldest, v.Seq)
			}
		}
		more, err := m.otherNames(sel, q.In.Paths)
		if err != nil {
			return nil, err
		}
		paths = append(paths, more...)
		if slices.ContainsFunc(m.before, func(v *store.Version) bool {
			return (v.Op == store.OpRename || v.Op == store.OpExchange) && stateOf(*v).dir()
		}) {
			// Changes in the requested directories may be recorded under other names.
			for _, v := range m.before {
				paths = append(paths, v.Path)
			}
		}
	}
	h, err := m.cellsSince(paths, oldest, sel)
	if err != nil {
		return nil, err
	}
	undone := func(seq uint64) bool { return sel[seq] != nil }
	for _, v := range sel {
		m.nameUnsaved(h, undone, *v)
		m.nameUnplaced(h, *v)
	}
	var also map[uint64]bool // the versions at all paths, because narrow decides which of them are undone
	if m.requested != nil {
		also = make(map[uint64]bool, len(m.before))
		for _, v := range m.before {
			if n := h.nodes[store.InodeOf(v.Stat)]; v.Excluded() && sel[v.Seq] == nil && n != nil && m.everAt(h, n, m.requestedCells(h)) {
				m.nameUnsaved(h, undone, *v)
			}
			also[v.Seq] = true
		}
	}
	plans := map[string]bool{}
	for _, v := range sel {
		plans[v.Plan] = true
	}
	return m.decide(h, oldest, func(f *fact) bool {
		if f.unversioned {
			return plans[f.v.Plan]
		}
		return slices.ContainsFunc(f.seqs, func(seq uint64) bool { return sel[seq] != nil || also[seq] })
	}, q), nil
}

// otherNames returns the paths at which the query selects versions of the requested files, and the
// names of the requested files that have several names or that have lost one since.
func (m *maker) otherNames(sel selection, paths []store.Path) (out []store.Path, err error) {
	changed, files := map[store.Inode]bool{}, map[store.Inode]bool{}
	for _, v := range m.before {
		changed[store.InodeOf(v.Stat)] = v.Stat.Ino != 0
	}
	for _, v := range sel {
		files[store.InodeOf(v.Stat)] = v.Stat.Ino != 0
	}
	for _, p := range paths {
		err := m.view.Live(p, func(v store.Version) error {
			if st := stateOf(v); st.in.Ino != 0 && !st.dir() && (st.nlink > 1 || changed[st.in]) {
				out = append(out, v.Path)
				files[st.in] = true
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for _, v := range m.before {
		if files[store.InodeOf(v.Stat)] {
			out = append(out, v.Path)
		}
	}
	return out, nil
}

// lastAction first examines fewCandidates versions, and then up to manyCandidates at a time.
const (
	fewCandidates  = 64
	manyCandidates = 4096
)

// lastAction returns the newest selected version that is still in effect. A version that was redone
// is as new as its redo.
func (m *maker) lastAction(f store.Filter, in Names, tried map[uint64]bool) (last store.Version, err error) {
	var candidates []store.Version
	most := fewCandidates
	look := func() bool {
		last, err = m.lastOf(candidates, f, tried)
		candidates, most = candidates[:0], min(4*most, manyCandidates)
		return err == nil && last.Seq == 0
	}
	redo := map[string]bool{} // plan ID → whether the plan is a redo
	each := m.view.Each(f, func(v store.Version) bool {
		if v.Plan != "" {
			if _, asked := redo[v.Plan]; !asked {
				of, err := m.store.Journal.Head(v.Plan)
				redo[v.Plan] = err == nil && of.Kind == store.PlanRedo
			}
			if !redo[v.Plan] {
				return true
			}
		}
		if tried[v.Seq] || store.OwnFile(v.Path) || in.Some() && !in.Has(v.Path) {
			return true
		}
		candidates = append(candidates, v)
		return len(candidates) < most || look()
	})
	if err == nil && each == nil && last.Seq == 0 && len(candidates) > 0 {
		look()
	}
	err = errors.Join(err, each)
	if err == nil && last.Seq == 0 {
		where := ""
		if in.Some() {
			where = " in " + in.String()
		}
		err = fmt.Errorf("nothing to undo%s: %w", where, store.ErrNotFound)
	}
	return last, err
}

// lastOf returns the newest of the candidates that is in effect, or Seq 0 if there is none. The
// candidates are sorted newest first.
func (m *maker) lastOf(candidates []store.Version, f store.Filter, tried map[uint64]bool) (last store.Version, err error) {
	var paths []store.Path
	for _, v := range candidates {
		paths = append(paths, v.Path)
	}
	h, err := m.cellsSince(paths, candidates[len(candidates)-1].Seq, nil)
	if err != nil {
		return last, err
	}
	counts := map[uint64]bool{}             // versions with an effective fact
	brought := map[uint64][]store.Version{} // for a plan's version, the versions that it restored and that are in effect
	for _, c := range h.cells() {
		top := len(c.facts) - 1
		if j := h.effective(c, top); j >= 0 && j != top && c.facts[j].v.Plan == "" {
			for _, seq := range c.facts[top].seqs {
				brought[seq] = append(brought[seq], *c.facts[j].v)
			}
		}
		for i := h.effective(c, top); i >= 0; i = h.effective(c, i-1) {
			for _, seq := range c.facts[i].seqs {
				counts[seq] = true
			}
		}
	}
	of := "" // the redo that last belongs to
	for _, v := range candidates {
		switch {
		case last.Seq != 0 && v.Plan != of:
			return last, nil // the newest version that the redo restored
		case v.Plan == "" && counts[v.Seq]:
			return v, nil
		}
		for _, e := range brought[v.Seq] {
			if tried[e.Seq] || e.Seq < last.Seq {
				continue
			}
			only := f
			only.Before, only.After = e.Seq+1, e.Seq-1
			err = m.view.Each(only, func(o store.Version) bool {
				last, of = o, v.Plan
				return false
			})
			if err != nil {
				return last, err
			}
		}
	}
	return last, nil
}

// maxPromptShown is how many characters of a session's first prompt are shown to describe the
// session.
const maxPromptShown = 60

// nameOf returns the description of a session: its first prompt, or its ID.
func (m *maker) nameOf(id store.SessionID) string {
	if id == "" {
		return ""
	}
	all, err := m.store.Sessions.Prompts(id)
	if err != nil || len(all) == 0 {
		return string(id)
	}
	asked := []rune(strings.Join(strings.Fields(all[0].Text), " "))
	if len(asked) > maxPromptShown {
		asked = append(asked[:maxPromptShown-1], '…')
	}
	if len(asked) == 0 {
		return string(id)
	}
	return "“" + string(asked) + "”"
}

func (m *maker) describe(q Query) string {
	f, out := q.Select, []string{}
	add := func(what, id string) {
		if id != "" {
			out = append(out, what+" "+id)
		}
	}
	add("session", m.nameOf(f.Session))
	add("agent", f.Agent)
	add("prompt", f.Prompt)
	add("tool call", f.ToolCall)
	add("plan", f.Plan)
	if q.What != "" {
		out = append(out, q.What)
	}
	if !f.Since.IsZero() {
		add("since", f.Since.Format("2006-01-02 15:04:05"))
	}
	add("in", q.In.String())
	if len(out) == 0 {
		return "everything"
	}
	return strings.Join(out, ", ")
}

// Names selects paths: the paths of Paths with their subtrees, and what Globs select (see
// text.GlobSelects).
type Names struct {
	Paths []store.Path
	Globs []string
}

// Some reports whether n contains any path or glob. Otherwise callers take it for the whole tree.
func (n Names) Some() bool { return len(n.Paths)+len(n.Globs) > 0 }

// Has reports whether n selects a path.
func (n Names) Has(p store.Path) bool {
	return slices.ContainsFunc(n.Paths, p.Inside) ||
		slices.ContainsFunc(n.Globs, func(g string) bool { return text.GlobSelects(g, string(p)) })
}

// String lists the paths and globs for the user.
func (n Names) String() string {
	all := slices.Clone(n.Globs)
	for _, p := range n.Paths {
		all = append(all, string(p))
	}
	return strings.Join(all, " ")
}
