package store

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cachebro/store/glob"
)

// errStop ends an iteration early.
var errStop = errors.New("stop")

// UndoQuery says what is to be taken back.
type UndoQuery struct {
	// Select picks the versions: session, prompt, tool call, pid, command,
	// since, plan. Its limit, order and Path are ignored.
	Select Filter
	// What names what Select.Match picks, for people.
	What string
	// Last: the newest action that has not been undone: one tool call, or
	// what one process did in one go. Select narrows it.
	Last bool
	// Globs restrict the paths: see glob.Selects; one without wildcards is a path
	// and all below it.
	Globs []string
	// Merge takes the change out of files that somebody else changed since,
	// where the lines do not meet. Force takes it back regardless.
	Merge, Force bool
	// Secure: see there; nil: the plan is only to be shown.
	Secure Secure
}

// chain walks what a path effectively was, newest first: a state that a plan
// brought back counts as the version it brought back.
type chain struct {
	s     *Store
	own   []Version // of the path itself, oldest first
	plans map[string]map[Path]Return
}

// at is the effective version for own[i]; false when the path was absent
// before anything was known, or what the plan made is a version of its own.
func (c *chain) at(i int) (Version, int) {
	for hops := 0; i >= 0 && hops < 1000; hops++ {
		v := c.own[i]
		if v.Plan == "" {
			return v, i
		}
		r, ok := c.returns(v.Plan)[v.Path]
		if !ok || r.Made || r.Back >= v.Seq {
			return v, i
		}
		if r.Back == 0 {
			return Version{}, -1
		}
		j := c.index(r.Back)
		if j < 0 || !broughtBack(stateOf(c.own[j]), stateOf(v)) {
			// A plan cut short, or versions dropped since. A step that failed may
			// have left it as it was.
			if j = c.index(r.Was); j < 0 || j >= i || !stateOf(c.own[j]).equal(stateOf(v)) {
				return v, i
			}
		}
		i = j
	}
	return Version{}, -1
}

// index is where in own a version is, -1 if it is not.
func (c *chain) index(seq uint64) int {
	return slices.IndexFunc(c.own, func(o Version) bool { return o.Seq == seq })
}

// back is own[i] for who takes out what one plan has made: if later plans only
// took that away and brought it back, it is that plan's version again.
func (c *chain) back(i int, plan string) (Version, int) {
	if i < 0 {
		return Version{}, -1
	}
	for j := i; c.own[j].Plan != "" && c.own[j].Plan != plan; {
		v := c.own[j]
		r, ok := c.returns(v.Plan)[v.Path]
		if !ok || r.Made || r.Back == 0 || r.Back >= v.Seq {
			break
		}
		j = slices.IndexFunc(c.own, func(o Version) bool { return o.Seq == r.Back })
		if j < 0 || !broughtBack(stateOf(c.own[j]), stateOf(v)) {
			break
		}
		if c.own[j].Plan == plan {
			return c.own[j], j
		}
	}
	return c.own[i], i
}

// broughtBack: what a plan has made is the state that it was to bring back. Of
// ignored files the log lacks the content, before or after they come into view, but
// a plan also gives back the mtime.
// Owner, attributes and set-id bits only count where whoever carried it out could give them.
func broughtBack(then, now state) bool {
	if then.mode, then.attrs, now.owned = then.mode&^setID|now.mode&then.mode&setID, "", false; now.regular() && then.regular() && (now.blob == (Hash{})) != (then.blob == (Hash{})) {
		return now.size == then.size && now.mtime == then.mtime && now.perm() == then.perm()
	}
	return now.equal(then)
}

func (c *chain) returns(plan string) map[Path]Return {
	if m, ok := c.plans[plan]; ok {
		return m
	}
	m := map[Path]Return{}
	if p, err := c.s.LookupPlan(plan); err == nil {
		for _, r := range p.Returns {
			m[r.Path] = r
		}
	}
	c.plans[plan] = m
	return m
}

// began: before its first known version the path did not exist.
func began(v Version) bool {
	switch v.Op {
	case OpCreate, OpMkdir, OpSymlink, OpMknod, OpRename, OpLink, OpUnlink, OpRmdir, OpMoved:
		return true
	}
	return false
}

// PlanUndo plans to take back what a query selects. A path is touched only if
// it still is what the undone actor last left; else it is in Conflicts. The
// plan is not begun.
func (s *Store) PlanUndo(q UndoQuery) (*Plan, error) {
	for tried := map[uint64]bool{}; ; {
		p := &Plan{Kind: PlanUndo, Seq: s.Seq(), secure: q.Secure}
		sel, title, err := s.selected(q, tried)
		if err != nil {
			return nil, err
		}
		p.Title = title
		if err := s.nameUnknown(p, sel, q.Globs); err != nil {
			return p, err
		}
		if err := s.takeOut(p, sel, q); err != nil || !q.Last || len(p.Steps)+len(p.Conflicts)+len(p.Lost) > 0 {
			return p, err
		}
		// Nothing is left of the last action (what it made it removed): the one before.
		for _, vs := range sel {
			for seq := range vs {
				tried[seq] = true
			}
		}
	}
}

// nameUnknown names those of the asked paths at which nothing ever was as far as
// is known: ignored ones that nobody looked at.
func (s *Store) nameUnknown(p *Plan, sel selection, globs []string) error {
	for _, g := range globs {
		path := Path(strings.Trim(g, "/"))
		if glob.Wild(g) || slices.ContainsFunc(sel.paths(), func(o Path) bool { return glob.Selects(g, string(o)) }) {
			continue
		}
		_, found, err := s.Current(path)
		if err != nil {
			return err
		}
		if found {
			continue
		}
		if err := s.Live(path, func(Version) error { found = true; return errStop }); err != nil && !errors.Is(err, errStop) {
			return err
		}
		if !found {
			p.Lost = append(p.Lost, Conflict{Path: path, Why: "nothing is known of it"})
		}
	}
	return nil
}

// PlanRedo plans to bring back what a finished plan took back; "" is the last
// one that was not brought back yet.
func (s *Store) PlanRedo(id string, force bool, secure Secure) (*Plan, error) {
	if id == "" {
		var err error
		if id, err = s.lastUndone(); err != nil {
			return nil, err
		}
	}
	of, err := s.LookupPlan(id)
	if err != nil {
		return nil, err
	}
	p := &Plan{Kind: PlanRedo, Seq: s.Seq(), Of: id, Title: "redo of: " + of.Title, secure: secure}
	return p, s.backOut(p, id, force)
}

// PlanRollback plans to take back what an unfinished plan has done so far.
func (s *Store) PlanRollback(id string, secure Secure) (*Plan, error) {
	of, err := s.LookupPlan(id)
	if err != nil {
		return nil, err
	}
	// To redo and undo alike it is as if the plan had never been.
	p := &Plan{Kind: PlanRedo, Seq: s.Seq(), Of: id, Title: "rollback of: " + of.Title, secure: secure}
	return p, s.backOut(p, id, false)
}

func (s *Store) backOut(p *Plan, id string, force bool) error {
	vs, err := s.all(Filter{Plan: id, Baselines: true})
	if err != nil {
		return err
	}
	sel := selection{}
	for i := range vs {
		sel.add(&vs[i])
	}
	return s.takeOut(p, sel, UndoQuery{Select: Filter{Plan: id}, Force: force})
}

// lastUndone is the newest plan that a redo can bring back.
func (s *Store) lastUndone() (string, error) {
	plans, err := s.Plans()
	if err != nil {
		return "", err
	}
	redone := map[string]bool{}
	for _, p := range plans { // newest first
		if p.Finished == 0 {
			continue
		}
		if p.Kind == PlanRedo {
			redone[p.Of] = true
			continue
		}
		if redone[p.ID] {
			continue
		}
		if whole, err := s.LookupPlan(p.ID); err != nil || !whole.ofOwnFiles() {
			return p.ID, err
		}
	}
	return "", fmt.Errorf("nothing to redo: %w", ErrNotFound)
}

// selection is the versions to be taken out, by path and sequence number.
type selection map[Path]map[uint64]*Version

func (s selection) add(v *Version) {
	if s[v.Path] == nil {
		s[v.Path] = make(map[uint64]*Version, 1)
	}
	s[v.Path][v.Seq] = v
}

func (s selection) paths() []Path { return slices.Sorted(maps.Keys(s)) }

// all is Log without a limit, oldest first.
func (s *Store) all(f Filter) ([]Version, error) {
	f.Limit, f.Oldest = 1<<30, true
	vs, _, err := s.Log(f)
	return vs, err
}

// selected finds the versions that a query means, by path. The last action is none
// that was tried.
func (s *Store) selected(q UndoQuery, tried map[uint64]bool) (selection, string, error) {
	f := q.Select
	f.Path, f.Baselines = "", false
	title := describe(q)
	var last Version
	if q.Last {
		var err error
		if last, err = s.lastAction(f, q.Globs, tried); err != nil {
			return nil, "", err
		}
		title = narrow(&f, last)
	}
	var match func(Path) bool
	if len(q.Globs) > 0 {
		match = func(p Path) bool { return matches(q.Globs, p) }
	}
	vs, err := s.all(f)
	if err != nil {
		return nil, "", err
	}
	if q.Last && f.PID != 0 {
		vs = burstOf(vs, last)
	}
	sel := selection{}
	for i := range vs {
		v := &vs[i]
		if (f.Plan != "" || v.Plan == "") && (match == nil || match(v.Path) || v.From != "" && match(v.From) || v.To != "" && match(v.To)) {
			sel.add(v)
		}
	}
	if match != nil {
		alsoNamed(sel, vs)
		wholeLives(sel, vs, match)
	}
	if len(sel) == 0 {
		return nil, "", fmt.Errorf("nothing to undo (%s): %w", title, ErrNotFound)
	}
	return sel, title, nil
}

// wholeLives adds to a selection that was narrowed by paths what else the same
// actor did to files under other names, as far as a selected path was renamed from
// or to those: an atomic save makes a temporary file first, and to undo no more than
// its rename would leave that behind.
func wholeLives(sel selection, vs []Version, match func(Path) bool) {
	bySeq, lives := map[uint64]*Version{}, map[Path][][]*Version{}
	for i := range vs {
		v := &vs[i]
		if v.Plan != "" {
			continue
		}
		bySeq[v.Seq] = v
		of := lives[v.Path]
		if n := len(of); n == 0 || of[n-1][len(of[n-1])-1].Deleted() {
			of = append(of, nil)
		}
		of[len(of)-1] = append(of[len(of)-1], v)
		lives[v.Path] = of
	}
	todo := slices.Collect(maps.Keys(sel))
	for len(todo) > 0 {
		path := todo[0]
		todo = todo[1:]
		if match(path) {
			continue
		}
		for _, life := range lives[path] {
			if !slices.ContainsFunc(life, func(v *Version) bool { return sel[path][v.Seq] != nil }) {
				continue
			}
			for _, v := range life {
				sel.add(v)
				// A rename is two versions, one after the other.
				pair := bySeq[v.Seq-1]
				if v.Op == OpMoved {
					pair = bySeq[v.Seq+1]
				}
				if pair != nil && (v.Op == OpMoved && pair.Path == v.To || v.Op == OpRename && pair.Path == v.From) && sel[pair.Path][pair.Seq] == nil {
					sel.add(pair)
					todo = append(todo, pair.Path)
				}
			}
		}
	}
}

// lastAction is the newest version that counts and is still in effect.
func (s *Store) lastAction(f Filter, globs []string, tried map[uint64]bool) (Version, error) {
	var last Version
	plans := map[string]map[Path]Return{}
	var failed error
	err := s.View(func(v *View) (err error) { f, err = v.bounded(f); return })
	if err != nil {
		return last, err
	}
	down := func(v Version) bool {
		if v.Seq <= f.After {
			return false
		}
		if v.Plan != "" || tried[v.Seq] || ownFile(v.Path) || !f.selects(v) || len(globs) > 0 && !matches(globs, v.Path) {
			return true
		}
		own, err := s.History(v.Path, false)
		if err != nil {
			failed = err
			return false
		}
		c := chain{s: s, own: own, plans: plans}
		for e, i := c.at(len(own) - 1); i >= 0; e, i = c.at(i - 1) {
			if e.Seq == v.Seq {
				last = v
				return false
			}
			if e.Seq < v.Seq {
				break
			}
		}
		return true
	}
	if err := errors.Join(s.scan(^uint64(0), true, down, nil), failed); err != nil {
		return last, err
	}
	if last.Seq == 0 {
		return last, fmt.Errorf("nothing to undo: %w", ErrNotFound)
	}
	return last, nil
}

// burst is the longest pause within what one process did in one go.
const burst = int64(5e9)

// narrow makes a filter select the action that v belongs to.
func narrow(f *Filter, v Version) string {
	if v.Actor.ToolCall != "" {
		f.ToolCall = v.Actor.ToolCall
		return fmt.Sprintf("tool call %s (%s)", v.Actor.ToolCall, v.Actor.by())
	}
	if v.Actor.PID == 0 {
		f.Match = func(o Version) bool { return o.Seq == v.Seq }
		return fmt.Sprintf("%q, changed by an unknown process", string(v.Path))
	}
	f.PID = v.Actor.PID
	f.Match = func(o Version) bool { return o.Actor.Start == v.Actor.Start }
	return fmt.Sprintf("%s (pid %d)", v.Actor.Comm, v.Actor.PID)
}

// burstOf keeps what the process did without a pause before v.
func burstOf(vs []Version, v Version) []Version {
	end := slices.IndexFunc(vs, func(o Version) bool { return o.Seq > v.Seq })
	if end < 0 {
		end = len(vs)
	}
	i := end - 1
	for i > 0 && vs[i].Time-vs[i-1].Time <= burst {
		i--
	}
	return vs[max(i, 0):end]
}

func describe(q UndoQuery) string {
	f, out := q.Select, []string{}
	add := func(what, id string) {
		if id != "" {
			out = append(out, what+" "+id)
		}
	}
	add("session", string(f.Session))
	add("agent", f.Agent)
	add("prompt", f.Prompt)
	add("tool call", f.ToolCall)
	add("plan", f.Plan)
	add("command", f.Comm)
	if q.What != "" {
		out = append(out, q.What)
	}
	if f.PID != 0 {
		add("pid", fmt.Sprint(f.PID))
	}
	if !f.Since.IsZero() {
		add("since", f.Since.Format("2006-01-02 15:04:05"))
	}
	add("in", strings.Join(q.Globs, " "))
	if len(out) == 0 {
		return "everything"
	}
	return strings.Join(out, ", ")
}

// matches reports whether a path matches one of the globs, or is one of the paths or
// below it.
func matches(globs []string, p Path) bool {
	return slices.ContainsFunc(globs, func(g string) bool {
		if !glob.Wild(g) {
			return inside(p, Path(strings.TrimSuffix(g, "/")))
		}
		return glob.Selects(g, string(p))
	})
}
