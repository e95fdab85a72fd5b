package undo

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"cachebro/store"
)

// What was renamed goes back by a rename: that needs no content, keeps the Inode,
// and carries along what nobody has looked at. Which goal's path a thing was at in
// the wanted state is found by its versions, each of which names the one before,
// across renames. The renames themselves are tried on the goals first, each where
// the ones before have left things, so that directories may have changed places,
// been put into each other, or been replaced.

// moved: something came to a path by a rename, or left it. own are its versions.
func moved(own []store.Version) bool {
	return slices.ContainsFunc(own, func(v store.Version) bool { return v.To != "" || v.From != "" && v.Op != store.OpLink })
}

// idle: nothing is to be done about a goal. Two directories are equal and yet not
// the same one, if either of them was somewhere else.
func (g *goal) idle() bool {
	return g.have.equal(g.want) && !(g.have.dir() && g.other) && !g.parted() && !g.lent && !g.retime
}

// withLent adds the goals of paths that hold the right content, but in a file that
// gets other names back, and not this one, or in a file that is about to leave the
// path, or in the very file that other paths are to be names of again: that it had
// several names may be known from this path alone.
func withLent(goals, same []goal) []goal {
	wanted, there, again := map[store.Inode]bool{}, map[store.Inode]bool{}, map[store.Inode]bool{}
	for _, g := range goals {
		if !g.want.absent() && !g.want.dir() && g.want.in.Ino != 0 && g.have.in != g.want.in && !g.made {
			again[g.want.in] = true
		}
		if g.want.nlink > 1 && g.want.in.Ino != 0 && !g.want.dir() && !g.made {
			wanted[g.want.in] = true
		}
		if g.have.in.Ino != 0 && !g.have.dir() && g.have.in != g.want.in {
			there[g.have.in] = true
		}
	}
	for _, g := range same {
		if g.have.dir() || g.have.in.Ino == 0 || g.want.in.Ino == 0 {
			continue
		}
		if g.have.in == g.want.in && g.want.nlink > 1 && again[g.want.in] || g.have.in != g.want.in && (wanted[g.have.in] || there[g.want.in]) {
			g.lent = true
			goals = append(goals, g)
		}
	}
	return goals
}

// another: what a path holds since version i is not what it held then.
func another(own []store.Version, i int) bool {
	return i >= 0 && slices.ContainsFunc(own[i+1:], func(v store.Version) bool {
		switch v.Op {
		case store.OpChmod, store.OpBaseline, store.OpSeen, store.OpOutside:
			return false
		}
		return true
	})
}

// wants are goals by the version that they want.
type wants map[uint64]*goal

func wantsOf(goals []goal) wants {
	w := wants{}
	for i := range goals {
		if g := &goals[i]; !g.want.absent() && !g.made && g.want.seq != 0 {
			w[g.want.seq] = g
		}
	}
	return w
}

// home is the goal that wants what v is a version of; nil: none. Renames before
// the time since do not count.
func (m *maker) home(w wants, v store.Version, since int64) *goal {
	for range 10_000 {
		if g := w[v.Seq]; g != nil {
			return g
		}
		switch v.Op {
		case store.OpRename, store.OpExchange:
			if v.Time < since {
				return nil
			}
			if g := w[v.Seq-1]; g != nil && g.path == v.From && v.Op == store.OpRename { // nothing is known of it before
				return g
			}
		case store.OpCreate, store.OpMkdir, store.OpSymlink, store.OpMknod, store.OpLink:
			return nil
		}
		if v.Prev == 0 || v.Deleted() {
			return nil
		}
		var err error
		v, err = m.view.Version(v.Prev)
		if err != nil {
			return nil // dropped from the log
		}
	}
	return nil
}

// homes says where what is now at goals' paths goes by a rename.
func (m *maker) homesOf(goals []goal) (map[store.Path]store.Path, error) {
	out := map[store.Path]store.Path{}
	if !slices.ContainsFunc(goals, func(g goal) bool { return g.moved }) {
		return out, nil
	}
	w, taken, blobs := wantsOf(goals), map[*goal]bool{}, map[store.Hash]bool{}
	for _, g := range w {
		if g.want.regular() {
			blobs[g.want.blob] = true
		}
	}
	for i := range goals {
		g := &goals[i]
		if !g.moved || g.have.absent() || g.lent && g.have.in == g.want.in || g.have.regular() && !blobs[g.have.blob] && !blobs[store.Hash{}] && g.have.blob != (store.Hash{}) {
			continue
		}
		v, found, err := m.view.Current(g.path)
		if err != nil {
			return nil, err
		}
		if !found || v.Seq != g.have.seq {
			continue
		}
		to := m.home(w, v, 0)
		if to == nil || taken[to] {
			continue
		}
		if matchContent(&to.want, &g.have); to.want.sameContent(g.have) {
			out[g.path], taken[to] = to.path, true
		}
	}
	return out, nil
}

// brought is what a directory brought to a path at which something else had been
// before: a goal of its own. If that directory does not go back, the path's goal is as
// it was without it.
type brought struct{ came, without goal }

// relocate looks where those were of which nothing is known before they were found:
// under a directory that was renamed since, they were where it was.
func (m *maker) relocate(goals []goal) ([]goal, error) {
	if len(m.brought)+len(m.beside) == 0 && !slices.ContainsFunc(goals, func(g goal) bool { return g.moved && (g.have.dir() || g.want.dir()) }) {
		return goals, nil
	}
	w, at, went := wantsOf(goals), map[store.Path]int{}, map[store.Path]store.Path{}
	for i := range goals {
		at[goals[i].path] = i
	}
	var more []goal
	bring := func(to store.Path, want state) error {
		if j, ok := at[to]; ok {
			switch g := &goals[j]; {
			case g.want.absent():
				g.want, g.moved = want, true
			case !g.want.equal(want):
				m.conflict(store.Conflict{Path: to, Why: "two files were there, as far as is known, of which one comes back"})
			}
			return nil
		}
		v, _, err := m.view.Current(to)
		if err != nil {
			return err
		}
		switch have := stateOf(v); {
		case have.equal(want):
		case have.absent():
			more = append(more, goal{path: to, have: have, want: want})
		default:
			m.conflict(store.Conflict{Path: to, Why: "made again since", Actor: v.Actor, Time: v.Time})
		}
		return nil
	}
	var back []goal
	for i := range goals {
		g := &goals[i]
		if !g.unseen || g.want.absent() {
			continue
		}
		to, err := m.formerly(w, went, g)
		if err == nil && to == "" && m.asked != nil && !m.asked(g.path) {
			to, err = m.originally(g)
		}
		if err != nil {
			return nil, err
		}
		if to == "" || to == g.path {
			continue
		}
		back = append(back, goal{path: to, want: g.want})
		g.want, g.moved, went[g.path] = state{}, true, to
	}
	for i := range m.lost { // what cannot be brought back there is told of there
		l := &m.lost[i]
		if l.first.Seq == 0 {
			continue
		}
		to, err := m.formerly(w, went, &goal{path: l.Path, want: stateOf(l.first)})
		if err != nil {
			return nil, err
		}
		if to != "" {
			l.Path = to
		}
	}
	for _, g := range back { // once each has left its place: two may change places
		if err := bring(g.path, g.want); err != nil {
			return nil, err
		}
	}
	for _, b := range m.brought {
		to, err := m.formerly(w, went, &b.came)
		if err != nil {
			return nil, err
		}
		if to != "" && to != b.came.path {
			if err := bring(to, b.came.want); err != nil {
				return nil, err
			}
			continue
		}
		m.conflict(store.Conflict{Path: b.came.path, Why: "something else was found here between two of the changes"})
		if j, ok := at[b.came.path]; ok {
			goals[j] = b.without
		}
	}
	m.brought = nil
	goals = slices.DeleteFunc(goals, func(g goal) bool { return g.idle() })
	return append(goals, more...), nil
}

// formerly is the name that a goal's file had in the wanted state, "" unless a
// directory above it goes back to another name. went are the directories of which
// that has been said.
func (m *maker) formerly(w wants, went map[store.Path]store.Path, g *goal) (store.Path, error) {
	for i := len(g.path) - 1; i > 0; i-- {
		if g.path[i] != '/' {
			continue
		}
		dir, found, err := m.view.AtSeq(g.path[:i], g.want.seq)
		if err != nil {
			return "", err
		}
		if !found || dir.Deleted() || !stateOf(dir).dir() {
			continue
		}
		to := m.home(w, dir, g.want.in.Birth)
		if to == nil {
			return "", nil
		}
		p, ok := went[to.path]
		if !ok && to.unseen && !to.want.absent() && to.path != g.path { // it went with its own directory
			p, err = m.formerly(w, went, to)
			if err != nil {
				return "", err
			}
			ok = p != ""
		}
		if !ok {
			p = to.path
		}
		return p + g.path[i:], nil
	}
	return "", nil
}

// originally is the name that a goal's file had before its directory was moved, be
// the directory asked for or not; "": it was not moved. A file that is brought back for
// another path goes to where it was, as one does of which that is known.
func (m *maker) originally(g *goal) (store.Path, error) {
	dir, below := g.path, store.Path("")
	var v store.Version
	for found := false; !found || v.Deleted() || !stateOf(v).dir(); {
		i := strings.LastIndexByte(string(dir), '/')
		if i < 0 {
			return "", nil
		}
		dir, below = dir[:i], dir[i:]+below
		var err error
		v, found, err = m.view.AtSeq(dir, g.want.seq)
		if err != nil {
			return "", err
		}
	}
	var err error
	for {
		for v.Op == store.OpChmod && v.Prev != 0 && err == nil { // it was there already
			v, err = m.view.Version(v.Prev)
		}
		if err != nil || !m.beside[v.Seq] || v.From == "" || v.Prev == 0 {
			break // err: dropped from the log
		}
		dir = v.From
		v, err = m.view.Version(v.Prev)
		if err == nil && v.Op == store.OpMoved && v.Prev != 0 {
			v, err = m.view.Version(v.Prev)
		}
	}
	return dir + below, nil
}

// thing is what goes from one goal's path to another's.
type thing struct {
	at   store.Path
	home store.Path
}

// mover carries out renames on goals.
type mover struct {
	x      *stepper
	things map[store.Path]*thing // by where they are
	names  []store.Path          // of all goals, in order
	stale  bool                  // names has to be made anew
	aside  int
}

// renames brings everything that has a home there.
func (x *stepper) renames() error {
	m := &mover{x: x, things: map[store.Path]*thing{}, stale: true}
	for p, to := range x.homes {
		m.things[p] = &thing{p, to}
	}
	var dirs []store.Path
	for p, t := range m.things {
		if p == t.home {
			continue
		}
		for _, dir := range []store.Path{p, t.home} {
			if x.goals[dir].have.dir() {
				dirs = append(dirs, dir)
			}
		}
	}
	if err := m.stay(dirs); err != nil {
		return err
	}
	var all []*thing
	for _, t := range m.things {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *thing) int { return strings.Compare(string(a.home), string(b.home)) })
	// What was put into a directory that then went elsewhere went along: again.
	for again, turn := true, 0; again && turn < 100; turn++ {
		again = false
		for _, t := range all {
			if t.at != t.home {
				again = true
				if err := m.bring(t); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// stay makes sure that what is not part of the plan ends where it was when its
// directory goes elsewhere.
//
// What was only found in the directory since the directory came is not known under
// another name, so it goes along.
func (m *mover) stay(dirs []store.Path) error {
	slices.Sort(dirs)
	var goals []goal
	for _, g := range m.x.goals {
		goals = append(goals, *g)
	}
	w := wantsOf(goals)
	top := store.Path("")
	for _, dir := range dirs {
		if top != "" && dir.Inside(top) {
			continue
		}
		top = dir
		err := m.x.view.Live(dir, func(v store.Version) error {
			if m.x.goals[v.Path] == nil {
				st := stateOf(v)
				to, err := m.cameWith(w, v)
				if err != nil {
					return err
				}
				m.x.goals[v.Path] = &goal{path: v.Path, have: st, want: st}
				m.things[v.Path] = &thing{v.Path, cmp.Or(to, v.Path)}
				if to != "" {
					m.x.goals[v.Path].want = state{}
					m.x.goals[to] = &goal{path: to, want: st}
				}
				m.x.plan.Returns = append(m.x.plan.Returns, store.Return{Path: v.Path, Was: st.seq, Back: st.seq})
				m.stale = true
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// cameWith is where what was only found at a path goes with its directory; "": it
// stays.
func (m *mover) cameWith(w wants, v store.Version) (store.Path, error) {
	if v.Op != store.OpBaseline && v.Op != store.OpWrite && v.Op != store.OpChmod && v.Plan == "" {
		return "", nil
	}
	own, err := m.x.view.History(v.Path, false)
	if err != nil {
		return "", err
	}
	c := &chain{m.x.maker, own}
	_, i := c.at(len(own) - 1)
	own = slices.DeleteFunc(own[:i+1], func(v store.Version) bool { return v.Plan != "" })
	own = slices.DeleteFunc(presentLife(own), func(v store.Version) bool { return v.Op == store.OpChmod })
	if len(own) == 0 || !foundOnly(own) {
		return "", nil
	}
	to, err := m.x.formerly(w, nil, &goal{path: v.Path, want: stateOf(own[0])})
	if err != nil || to == v.Path || m.x.goals[to] != nil {
		return "", err
	}
	return to, nil
}

// bring brings a thing to where it belongs.
func (m *mover) bring(t *thing) error {
	x := m.x
	if t.home.Inside(t.at) { // below itself: another directory of that name is to be there
		if err := m.putAside(t.at); err != nil {
			return err
		}
	}
	if err := m.way(t.home); err != nil {
		return err
	}
	var err error
	switch there := x.goals[t.home]; {
	case there.have.absent():
	case t.at.Inside(t.home):
		err = m.putAside(t.home)
		if err == nil {
			err = m.way(t.home)
		}
	case there.have.dir() || x.goals[t.at].have.dir():
		return m.exchange(t.at, t.home)
	case m.things[t.home] != nil:
		err = m.putAside(t.home)
	default:
		x.remove(there)
	}
	if err != nil {
		return err
	}
	return m.rename(t.at, t.home)
}

// way makes the directories above a path, and clears away what is in their place.
func (m *mover) way(p store.Path) error {
	for i := range len(p) {
		if p[i] != '/' {
			continue
		}
		g := m.x.goals[p[:i]]
		if g == nil || g.have.absent() || g.have.dir() {
			continue
		}
		if m.things[g.path] == nil {
			m.x.remove(g)
		} else if err := m.putAside(g.path); err != nil {
			return err
		}
	}
	m.x.parents(p, true)
	return nil
}

// putAside gives something a name that nobody else uses.
func (m *mover) putAside(from store.Path) error {
	m.aside++
	return m.rename(from, store.Path(fmt.Sprintf(".cachebro-aside-%d-%d~", m.x.plan.Seq, m.aside)))
}

// below lists the goals at and below a path, the path first.
func (m *mover) below(p store.Path) []store.Path {
	if !m.x.goals[p].have.dir() {
		return []store.Path{p}
	}
	if m.stale {
		m.names, m.stale = m.names[:0], false
		for name := range m.x.goals {
			m.names = append(m.names, name)
		}
		slices.Sort(m.names)
	}
	out, prefix := []store.Path{p}, p+"/"
	for i := sort.Search(len(m.names), func(i int) bool { return m.names[i] >= prefix }); i < len(m.names) && strings.HasPrefix(string(m.names[i]), string(prefix)); i++ {
		out = append(out, m.names[i])
	}
	return out
}

// carried is what a rename takes along.
type carried struct {
	below store.Path // relative to what moves
	have  state
	thing *thing
}

// take takes away what is at and below a path.
func (m *mover) take(from store.Path) []carried {
	var out []carried
	for _, p := range m.below(from) {
		g := m.x.goals[p]
		if g.have.absent() {
			continue
		}
		out = append(out, carried{p[len(from):], g.have, m.things[p]})
		g.have = state{}
		delete(m.things, p)
		delete(m.x.made, p)
	}
	return out
}

func (m *mover) put(to store.Path, hs []carried) error {
	for _, h := range hs {
		p := to + h.below
		g := m.x.goals[p]
		if g == nil {
			// A later undo has to know that it is in the end as it was.
			v, _, err := m.x.view.Current(p)
			if err != nil {
				return err
			}
			m.x.plan.Returns = append(m.x.plan.Returns, store.Return{Path: p, Was: v.Seq, Back: v.Seq})
			g = &goal{path: p}
			m.x.goals[p], m.stale = g, true
		}
		g.have = h.have
		if h.have.dir() {
			m.x.made[p] = true
		}
		if h.thing != nil {
			h.thing.at = p
			m.things[p] = h.thing
		}
	}
	return nil
}

func (m *mover) rename(from, to store.Path) error {
	have := m.x.goals[from].have
	st := expect(store.Step{Do: store.DoRename, Path: from, To: to, Mode: have.mode}, have)
	if have.dir() {
		st.Ino = have.in.Ino
	} else if have.regular() && have.blob == (store.Hash{}) { // nothing else to know it by
		st.Size, st.Mtime = have.size, have.mtime
	}
	m.x.add(st)
	return m.put(to, m.take(from))
}

// exchange lets two paths change places, at least one of which is a directory.
func (m *mover) exchange(a, b store.Path) error {
	if m.x.goals[a].have.dir() {
		a, b = b, a // so that Path is the file, if there is one
	}
	have := m.x.goals[a].have
	st := expect(store.Step{Do: store.DoExchange, Path: a, To: b, Mode: have.mode}, have)
	if have.dir() {
		st.Ino = have.in.Ino
	} else if have.regular() && have.blob == (store.Hash{}) {
		st.Size, st.Mtime = have.size, have.mtime
	}
	m.x.add(st)
	ha, hb := m.take(a), m.take(b)
	if err := m.put(a, hb); err != nil {
		return err
	}
	return m.put(b, ha)
}
