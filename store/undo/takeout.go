package undo

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	"cachebro/store"
)

// takeOut returns the goals that take the selected versions out of each path. An undo
// sees the versions that earlier plans brought back in place of those plans; a redo
// (q.Select.Plan) takes out the very versions that a plan made.
func (m *maker) takeOut(sel selection, q Query) ([]goal, error) {
	paths, known := sel.paths(), map[uint64]*store.Version{}
	for _, vs := range sel {
		maps.Copy(known, vs)
	}
	oldest := ^uint64(0)
	for seq := range known {
		oldest = min(oldest, seq)
	}
	var goals, same []goal
	err := m.view.Histories(paths, known, func(path store.Path, own []store.Version) error {
		if len(own) == 0 {
			return nil // dropped from the log since it was selected
		}
		c := &chain{m, own}
		g, ok, err := m.goalFor(c, path, sel[path], q)
		if err != nil {
			return err
		}
		g.since = oldest
		g.took = slices.Max(slices.Collect(maps.Keys(sel[path])))
		matchContent(&g.have, &g.want)
		if store.OwnFile(path) { // is nowhere but while a plan is carried out
			g.want = state{}
		}
		g.retime = g.retime && g.want.retimed(g.have)
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
	m.same = same
	goals = withLent(goals, same)
	asItsOtherNames(goals)
	if err := m.asBeforeOtherNames(goals); err != nil {
		return nil, err
	}
	if err := errors.Join(m.nameKeepers(sel, goals), m.nameFormerKeepers(sel, goals, same)); err != nil {
		return nil, err
	}
	goals, err = m.relocate(goals)
	if err != nil {
		return nil, err
	}
	return goals, m.nameDeparted(goals)
}

// run is what the selected versions made of a path without anybody else's between
// them. A path may have several.
type run struct {
	left, want state
	over       *store.Version // somebody else's newest version above it, up to the next run
	found      bool           // over says no more than that something was found where nothing was
	below      int            // the version that says what was before; -1: none
	first      store.Version
}

// runs finds them, newest first. What later plans took back is not there any more.
func (c *chain) runs(sel map[uint64]*store.Version, plan string) ([]run, error) {
	at := func(i int) (store.Version, int) {
		if plan == "" {
			return c.at(i)
		}
		return c.back(i, plan)
	}
	least := ^uint64(0)
	for seq := range sel {
		least = min(least, seq)
	}
	// ours: it is selected, or says no more than what the selected one below left.
	// A plan that was to bring a selected one back, and could not, left this in its place.
	ours := func(v store.Version, i int) bool {
		if v.Plan != "" && plan == "" && sel[v.Seq] == nil {
			r := c.returns(v.Plan)[v.Path]
			return !r.Made && sel[r.Back] != nil
		}
		if sel[v.Seq] != nil || v.Op != store.OpBaseline || i < 0 {
			return sel[v.Seq] != nil
		}
		if i+1 < len(c.own) && sel[c.own[i+1].Seq] != nil && store.FoundNew(v, c.own[i+1]) {
			return true
		}
		below, j := at(i - 1)
		return j >= 0 && sel[below.Seq] != nil && describes(v, below)
	}
	var out []run
	var over *store.Version
	found := true
	var err error
	v, i := at(len(c.own) - 1)
	for i >= 0 && v.Seq >= least {
		if !ours(v, i) {
			if over == nil && (plan == "" || v.Plan != plan) {
				w := v
				over = &w
			}
			found = found && v.Op == store.OpBaseline
			v, i = at(i - 1)
			continue
		}
		r := run{left: stateOf(v), over: over}
		r.found, found = over != nil && found && r.left.absent(), true
		under := i
		for over = nil; i >= 0 && ours(v, i); v, i = at(under) {
			r.first, under = v, i-1
		}
		r.below = i
		if i >= 0 {
			r.want, err = c.m.described(c.own, i)
			if err != nil {
				return nil, err
			}
			if b := c.own[under]; b.Plan != "" && !b.Deleted() { // another file with the same content, and with what rights could be given
				is := stateOf(b)
				r.want.in, r.want.nlink = is.in, is.nlink
				r.want.mode, r.want.attrs, r.want.owned, r.want.uid, r.want.gid = is.mode, is.attrs, is.owned, is.uid, is.gid
			}
		} else {
			r.want = carriedAway(r.first)
		}
		out = append(out, r)
	}
	return out, nil
}

// mergedBack is the version by which a redo brought the selected ones back together with
// what others had changed since: none of the selected ones is there as it was.
func (c *chain) mergedBack(sel map[uint64]*store.Version) (store.Version, bool) {
	for v, i := c.at(len(c.own) - 1); i >= 0; v, i = c.at(i - 1) {
		r := c.returns(v.Plan)[v.Path]
		t := c.index(r.Took)
		if v.Plan == "" || !r.Made || t < 0 {
			continue
		}
		taken := c.returns(c.own[t].Plan)[v.Path]
		for seq := range sel {
			if taken.Back < seq && seq <= taken.Was {
				return v, true
			}
		}
	}
	return store.Version{}, false
}

// goalFor decides about one path; false: nothing to do, or a conflict noted.
func (m *maker) goalFor(c *chain, path store.Path, sel map[uint64]*store.Version, q Query) (g goal, ok bool, err error) {
	runs, err := c.runs(sel, q.Select.Plan)
	if err != nil {
		return g, false, err
	}
	if len(runs) == 0 { // undone before
		if v, ok := c.mergedBack(sel); ok && q.Select.Plan == "" {
			m.conflict(store.Conflict{Path: path, Why: fmt.Sprintf("brought back in a merge, which cachebro redo --plan %s takes back; merged", v.Plan), Actor: v.Actor, Time: v.Time})
		}
		return g, false, nil
	}
	have := stateOf(c.own[len(c.own)-1])
	conflict := func(over *store.Version, why string) {
		if runs[len(runs)-1].want.dir() && !have.dir() {
			why = "it was a directory, and what it held may not be back there; " + why
		}
		m.conflict(store.Conflict{Path: path, Why: why, Actor: over.Actor, Time: over.Time})
	}
	// Who asks for it regardless gets what was before the oldest of them.
	if q.Force {
		runs = runs[len(runs)-1:]
	}
	g = goal{path: path, have: have, moved: moved(c.own), retime: runs[0].over == nil}
	made := false
	now := have
	for n, r := range runs {
		first := r.first
		if notKept(first) && (first.Excluded() || r.below < 0) {
			m.lose(store.Conflict{Path: path, Why: first.NoContent, Actor: first.Actor, Time: first.Time})
			return g, n > 0, nil
		}
		if r.below < 0 && r.want.absent() && !began(first) && first.Op != store.OpBaseline && !madeLater(c.own, first) {
			m.loseBefore(first)
			return g, n > 0, nil
		}
		as := goal{have: now, want: r.want, other: another(c.own, r.below)}
		switch {
		case r.over == nil || q.Force || as.idle() || now.equal(r.left): // whoever wrote it since left it as it was
			now, made = r.want, false
			g.want, g.other = r.want, as.other
			g.from, g.came = "", first.Seq
			if first.Op == store.OpRename {
				g.from = first.From
			}
			g.unseen = r.below < 0 && !r.want.absent() || r.below >= 0 && foundOnly(c.own[:r.below+1])
			continue
		case n > 0 && !made && r.found:
			// It came with its directory, and goes with it; before that came something
			// else was here.
			came, was := g, g
			came.have, came.want, came.unseen = state{}, now, true
			m.brought = append(m.brought, brought{came, was})
			now, g.want, g.other, g.from, g.came = r.want, r.want, as.other, "", first.Seq
			g.unseen, g.moved = r.below >= 0 && foundOnly(c.own[:r.below+1]), true
			continue
		case q.Merge:
			if merged, ok := m.merge(r.left, r.want, now); ok {
				g.want, g.other, g.unseen = merged, false, false
				m.unlent(&g)
				now, made = g.want, true
				continue
			}
			conflict(r.over, "changed since, in the same lines")
		case n > 0:
			conflict(r.over, "another change lies between this and an earlier one: --merge takes both out where that is clean; changed")
		case now.absent():
			conflict(r.over, "deleted since")
		case r.left.absent():
			conflict(r.over, "made again since")
		default:
			conflict(r.over, "changed since")
		}
		g.made = made
		return g, n > 0, nil
	}
	g.made = made
	return g, true, nil
}

// foundOnly: these versions say no more than how a file was found. Its content may
// have been read when it got one more name.
func foundOnly(own []store.Version) bool {
	own = presentLife(own)
	return !slices.ContainsFunc(own, func(v store.Version) bool {
		return store.InodeOf(v.Stat) != store.InodeOf(own[0].Stat) || v.Op != store.OpBaseline && (v.Op != store.OpWrite || !sameBytes(v, own[0]))
	})
}

// presentLife are the versions of what is at a path now, or was there last.
func presentLife(own []store.Version) []store.Version {
	for i := len(own) - 2; i >= 0; i-- {
		if own[i].Deleted() {
			return own[i+1:]
		}
	}
	return own
}

// notKept: a directory went of which nothing is kept, or a file changed there; the
// version says what.
func notKept(v store.Version) bool {
	return v.NoContent != "" && (v.Op == store.OpRmdir || v.Excluded())
}

// describes: a version gives the content of what the version below it left. It is a
// baseline, or that of a file that came under a tracked name.
func describes(v, below store.Version) bool {
	if st := stateOf(v); v.Op == store.OpBaseline && !st.regular() { // found once more, under a name of another class
		return !below.Deleted() && st.in.Ino != 0 && st.in == store.InodeOf(below.Stat) && st.equal(stateOf(below))
	}
	shown := v.Op == store.OpWrite && below.From != "" && v.Time == below.Time
	return (v.Op == store.OpBaseline || shown) && sameBytes(v, below)
}

// sameBytes: two versions are of one file, which was not written to between them.
func sameBytes(a, b store.Version) bool {
	return regular(a) && !b.Deleted() && regular(b) && store.InodeOf(a.Stat) == store.InodeOf(b.Stat) &&
		a.Stat.Size == b.Stat.Size && (a.Stat.Mtime == b.Stat.Mtime || a.Stat.Size == 0) // who truncates an empty file changes its time
}

// described is the state that a version left, with the content that was found to be
// its only before it was destroyed, under whatever name it had by then.
func (m *maker) described(own []store.Version, i int) (state, error) {
	st := stateOf(own[i])
	if !st.regular() || st.blob != (store.Hash{}) {
		return st, nil
	}
	for is := own[i]; i+1 < len(own); is = own[i] {
		next := own[i+1]
		to := store.Path("")
		switch {
		case describes(next, is):
			st.blob, st.noContent = next.Blob, next.NoContent
			return st, nil
		case next.Op == store.OpChmod && sameBytes(next, is):
			i++
		case next.Op == store.OpMoved:
			to = next.To
		case next.Op == store.OpExchange:
			to = next.From // what came from there is here now
		default:
			return st, nil
		}
		if to == "" {
			continue
		}
		var err error
		own, err = m.view.History(to, false)
		if err != nil {
			return st, err
		}
		i = slices.IndexFunc(own, func(v store.Version) bool { return v.From == is.Path && v.Prev == is.Seq })
		if i < 0 || !sameBytes(own[i], is) {
			return st, nil
		}
	}
	return st, nil
}

// carriedAway is what a path held whose first version is that it was renamed: of
// ignored files nothing is recorded before.
func carriedAway(first store.Version) state {
	if first.Op != store.OpMoved || first.Class != 1 {
		return state{}
	}
	first.Op, first.NoContent = store.OpBaseline, store.NoContentRenamed
	return stateOf(first)
}

// madeLater: a file is told of as made when it is first closed, so a chmod
// through the descriptor that made it comes before (sed -i does this).
func madeLater(own []store.Version, first store.Version) bool {
	if first.Op != store.OpChmod {
		return false
	}
	for _, v := range own {
		switch {
		case v.Seq <= first.Seq:
		case v.Deleted():
			return false
		case v.Op == store.OpCreate:
			return store.InodeOf(v.Stat) == store.InodeOf(first.Stat)
		}
	}
	return false
}

// possible drops goals that cannot be reached: their content is not kept (Lost),
// they would destroy what is not kept, their directory is somebody's file now,
// they would remove a directory in which something lives, or, without apart, they
// would change a file that has another name now and stays as it is there. Dropping one
// may cost another, so it looks until nothing changes.
func (m *maker) possible(goals []goal, apart bool) ([]goal, error) {
	needed, stranded := map[store.Path]bool{}, map[store.Path]store.Path{}
	for {
		var err error
		goals, err = m.withDirectories(goals, needed)
		if err != nil {
			return nil, err
		}
		o, err := m.outlookOf(goals)
		if err != nil {
			return nil, err
		}
		byPath, byFile := o.paths, filesOf(o.all)
		moved := map[store.Path]store.Path{} // contents that come back by a rename, and from where
		for from, to := range o.homes {
			moved[to] = from
		}
		full, came := m.inhabited(byPath, goals)
		keep := goals[:0:0]
		for i := range goals {
			g := goals[i]
			w := g.want
			f, err := m.fateOf(byPath, byFile, &goals[i])
			if err != nil {
				return nil, err
			}
			refused := o.refusal(&goals[i])
			// A directory that stays where it came to keeps what it brought.
			named := func(why string) store.Conflict {
				if to := o.homes[g.path]; to != "" && g.have.dir() && !w.dir() {
					why += fmt.Sprintf("; what it brought from %q may not be back there", string(to))
				}
				return store.Conflict{Path: g.path, Why: why}
			}
			switch {
			case refused != "":
				m.conflict(named(refused))
			case w.regular() && moved[g.path] == "" && !w.sameContent(g.have) && !m.has(w.blob):
				why := w.noContent
				if why == "" {
					why = "the content is no longer kept"
				}
				m.lost = append(m.lost, lost{Conflict: named(why), size: w.size})
			case w.link() && w.target == "" && moved[g.path] == "" && !w.sameContent(g.have):
				m.lose(named("where it pointed was not seen"))
			case !w.absent() && m.blocked(byPath, g.path):
				m.conflict(named("what was its directory is something else now"))
				if from := moved[g.path]; from != "" {
					stranded[from] = g.path
				}
			case stranded[g.path] != "" && w.absent() && !g.have.dir():
				m.conflict(store.Conflict{Path: g.path, Why: fmt.Sprintf("it was %q, where it cannot be now", string(stranded[g.path]))})
			case g.have.dir() && g.want.absent() && full[g.path] && !g.moved && !came[g.path]:
				// It was made, and stays for what others have put there.
			case g.have.dir() && !w.dir() && full[g.path]:
				m.conflict(named("the directory holds other files"))
			case !apart && f.inPlace && len(f.others) > 0:
				c := store.Conflict{Path: g.path, Why: fmt.Sprintf("the same file is also %q, which is not part of this", string(f.others[0]))}
				if v, _, err := m.view.Current(f.others[0]); err == nil {
					c.Actor, c.Time = v.Actor, v.Time
				}
				m.conflict(c)
			default:
				keep = append(keep, g)
			}
		}
		if len(keep) == len(goals) {
			m.homes = o.homes
			return keep, nil
		}
		goals = keep
	}
}

// withDirectories makes sure that each directory exists in which something is to be.
// A directory that was made by what is taken back, and then went elsewhere, would not
// come back for what others have put into it. Each is looked at once: needed has
// those that were.
func (m *maker) withDirectories(goals []goal, needed map[store.Path]bool) ([]goal, error) {
	at := make(map[store.Path]int, len(goals))
	for i := range goals {
		at[goals[i].path] = i
	}
	for n := range goals {
		if goals[n].want.absent() {
			continue
		}
		p := goals[n].path
		for i := len(p) - 1; i > 0; i-- {
			if p[i] != '/' {
				continue
			}
			dir := p[:i]
			if needed[dir] {
				break // and so are those above it
			}
			needed[dir] = true
			g := goal{path: dir, since: goals[n].since}
			if j, ok := at[dir]; ok {
				g = goals[j]
				if !g.want.absent() || g.have.dir() {
					continue
				}
			} else {
				v, found, err := m.view.Current(dir)
				if err != nil {
					return nil, err
				}
				g.have = stateOf(v)
				if !found || !g.have.absent() {
					continue
				}
			}
			own, err := m.view.History(dir, false)
			if err != nil {
				return nil, err
			}
			own = slices.DeleteFunc(own, func(v store.Version) bool { return v.Plan != "" || !stateOf(v).dir() })
			if len(own) == 0 {
				continue
			}
			g.want, g.moved = stateOf(own[len(own)-1]), true
			if j, ok := at[dir]; ok {
				goals[j] = g
			} else {
				at[dir] = len(goals)
				goals = append(goals, g)
			}
		}
	}
	return goals, nil
}

// blocked: an ancestor is, after the plan, something that is no directory.
func (m *maker) blocked(goals map[store.Path]*goal, p store.Path) bool {
	for i := len(p) - 1; i > 0; i-- {
		if p[i] != '/' {
			continue
		}
		dir := p[:i]
		if g := goals[dir]; g != nil {
			if !g.want.absent() {
				return !g.want.dir()
			}
			continue
		}
		if v, found, err := m.view.Current(dir); err == nil && found && !v.Deleted() {
			return !stateOf(v).dir()
		}
	}
	return false
}

// has: a plan can bring this content. It is asked at every turn.
func (m *maker) has(h store.Hash) bool {
	if m.plan.Made[h] != nil {
		return true
	}
	at, asked := m.kept[h]
	if !asked {
		at.Place, at.kept = m.store.Contents().Place(h)
		m.kept[h] = at
	}
	return at.kept
}

// askFor asks at once for the contents that a plan wants to bring, in the order
// in which they lie in the store: each block of it holds dozens.
func (m *maker) askFor(goals []goal) {
	var hs []store.Hash
	for i := range goals {
		if w := &goals[i].want; w.regular() && !w.sameContent(goals[i].have) {
			hs = append(hs, w.blob)
		}
	}
	slices.SortFunc(hs, func(a, b store.Hash) int { return bytes.Compare(a[:], b[:]) })
	for _, h := range hs {
		m.has(h)
	}
}

// inhabited are those directories that are to go in which something lives after
// the plan. came are those of them that hold what nobody has made there.
func (m *maker) inhabited(byPath map[store.Path]*goal, goals []goal) (full, came map[store.Path]bool) {
	full, came = map[store.Path]bool{}, map[store.Path]bool{}
	going := map[store.Path]bool{}
	var dirs []store.Path
	for i := range goals {
		if g := &goals[i]; g.have.dir() && !g.want.dir() {
			dirs = append(dirs, g.path)
			going[g.path] = true
		}
	}
	if len(dirs) == 0 {
		return full, came
	}
	up := func(p store.Path, found bool) {
		for i := len(p) - 1; i > 0; i-- {
			if p[i] == '/' && going[p[:i]] {
				full[p[:i]] = true
				came[p[:i]] = came[p[:i]] || found
			}
		}
	}
	for p, g := range byPath {
		if !g.want.absent() {
			up(p, g.unseen)
		}
	}
	// What is below a directory is looked at once, not for each one inside.
	slices.Sort(dirs)
	top := store.Path("")
	for _, dir := range dirs {
		if top != "" && dir.Inside(top) {
			continue
		}
		top = dir
		err := m.view.Live(dir, func(v store.Version) error {
			if o := byPath[v.Path]; v.Path != dir && (o == nil || !o.want.absent()) {
				up(v.Path, v.Op == store.OpBaseline && v.Plan == "")
			}
			return nil
		})
		if err != nil { // in doubt
			return going, came
		}
	}
	return full, came
}
