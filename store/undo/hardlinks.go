package undo

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cachebro/store/leaf/glob"

	"cachebro/store"
)

// Hard links: one file under several names. What a plan does to such a file in place,
// it does to all its names. So either all of them go the same way, or the one that
// differs gets a file of its own, or the file is left alone.

// namesOf lists the live paths, other than but, that are names of the same
// file as far as is known.
func (m *maker) namesOf(st state, but store.Path) ([]store.Path, error) {
	if st.nlink < 2 || st.in.Ino == 0 || st.dir() {
		return nil, nil
	}
	names, err := m.namesNow(st.in)
	if i, ok := slices.BinarySearch(names, but); ok {
		return slices.Concat(names[:i], names[i+1:]), err
	}
	return names, err
}

// namesNow are the names that a file has, as far as is known, in order. They are kept: a
// plan asks for those of a file by each of them.
func (m *maker) namesNow(in store.Inode) ([]store.Path, error) {
	if m.named.view != m.view {
		m.named.view, m.named.of = m.view, map[store.Inode][]store.Path{}
	}
	if out, ok := m.named.of[in]; ok {
		return out, nil
	}
	all, err := m.view.NamesOf(in)
	if err != nil {
		return nil, err
	}
	var out []store.Path
	for _, p := range all {
		v, found, err := m.view.Current(p)
		if err != nil {
			return nil, err
		}
		if found && !v.Deleted() && store.InodeOf(v.Stat) == in {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	m.named.of[in] = out
	return out, nil
}

// fate is what becomes of a file with several names when one of them changes.
type fate struct {
	with   []store.Path // names that go the same way
	others []store.Path // names that keep the file as it is
	// inPlace: the change that is taken back was made to the file, not by
	// putting another one in its place.
	inPlace bool
}

// fateOf decides for a goal that changes content or mode. All goals are given:
// by path, and by the file that is there now.
func (m *maker) fateOf(byPath map[store.Path]*goal, byFile map[store.Inode][]*goal, g *goal) (fate, error) {
	var f fate
	if !g.have.regular() || !g.want.regular() || g.have.nlink < 2 || g.want.equal(g.have) && !g.parted() {
		return f, nil
	}
	f.inPlace = g.want.in == g.have.in
	for _, o := range byFile[g.have.in] {
		switch {
		case o == g || !o.want.regular(): // a name that goes away is no concern
		case o.want.equal(g.want) && o.want.in == g.want.in:
			f.with = append(f.with, o.path)
		case !f.inPlace || o.want.in == o.have.in:
			f.others = append(f.others, o.path)
		}
	}
	names, err := m.namesOf(g.have, g.path)
	for _, p := range names {
		if byPath[p] != nil {
			continue
		}
		if found, err := m.foundSince(p, g.have.in, g.since); err != nil {
			return f, err
		} else if !found {
			f.others = append(f.others, p)
		}
	}
	return f, err
}

// foundSince: all that is known of this name of a file is that it was found after
// what is taken back had begun, and what plans did to it since. It was changed
// together with the other names while it was unknown, and goes back with them now.
func (m *maker) foundSince(p store.Path, in store.Inode, since uint64) (bool, error) {
	if since == 0 {
		return false, nil
	}
	own, err := m.view.History(p, false)
	if err != nil || len(own) == 0 || own[0].Seq < since {
		return false, err
	}
	return !slices.ContainsFunc(own, func(v store.Version) bool {
		return store.InodeOf(v.Stat) != in || v.Op != store.OpBaseline && v.Plan == ""
	}), nil
}

func filesOf(goals []*goal) map[store.Inode][]*goal {
	m := map[store.Inode][]*goal{}
	for _, g := range goals {
		if g.have.regular() && g.have.nlink > 1 {
			m[g.have.in] = append(m[g.have.in], g)
		}
	}
	return m
}

// alsoNamed adds to a selection that was narrowed by paths what the same writes did
// to other names of the selected files. vs are the versions before the narrowing.
// asked are the files with several names that are now under the asked paths: the log
// may not have known those names when the writes were made. replaced are those that a
// selected change put another file in the place of, with its number: what was written
// later was not written to what the path was.
func alsoNamed(sel selection, vs []store.Version, asked map[store.Inode]bool, replaced map[store.Inode]uint64) {
	files := maps.Clone(asked)
	for _, v := range vs {
		if v.Stat.Nlink > 1 && sel[v.Path][v.Seq] != nil {
			files[store.InodeOf(v.Stat)] = true
		}
	}
	for i := range vs {
		v := &vs[i]
		if in := store.InodeOf(v.Stat); (files[in] || v.Seq < replaced[in]) && v.Plan == "" && changes(*v) {
			sel.add(v)
		}
	}
}

// changes: a version is of a change of its file, under whatever name.
func changes(v store.Version) bool {
	return v.Op == store.OpWrite || v.Op == store.OpTruncate || v.Op == store.OpChmod
}

// filesAt are the files with several names at and below paths.
func (m *maker) filesAt(paths []string) (map[store.Inode]bool, error) {
	files := map[store.Inode]bool{}
	for _, g := range paths {
		if glob.Wild(g) {
			continue
		}
		err := m.view.Live(store.Path(strings.Trim(g, "/")), func(v store.Version) error {
			if st := stateOf(v); st.nlink > 1 && st.in.Ino != 0 && !st.dir() {
				files[st.in] = true
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

// replaced are the files, of those that m.other has, in whose place a selected rename put
// another one, with its number.
func (m *maker) replaced(sel selection) (map[store.Inode]uint64, error) {
	var paths []store.Path
	known := map[uint64]*store.Version{}
	for p, vs := range sel {
		for seq, v := range vs {
			known[seq] = v
			if (v.Op == store.OpRename || v.Op == store.OpExchange) && !stateOf(*v).dir() {
				paths = append(paths, p)
			}
		}
	}
	by := map[store.Inode]uint64{}
	if len(m.other) == 0 || len(paths) == 0 {
		return by, nil
	}
	slices.Sort(paths)
	err := m.view.Histories(slices.Compact(paths), known, func(p store.Path, own []store.Version) error {
		for i := 1; i < len(own); i++ {
			v, was := own[i], own[i-1]
			in := store.InodeOf(was.Stat)
			if sel[p][v.Seq] != nil && !v.Deleted() && !was.Deleted() && was.Stat.Nlink > 1 && store.InodeOf(v.Stat) != in && m.other[in].Seq != 0 {
				by[in] = v.Seq
			}
		}
		return nil
	})
	return by, err
}

// follow adds to the goals of a plan by path those of a file's other names, where
// they were names of the wanted file at the moment seq (0: ever). A file that has got
// another name since is parted from it.
func (m *maker) follow(goals []goal, seq uint64) ([]goal, error) {
	byPath := map[store.Path]bool{}
	for _, g := range goals {
		byPath[g.path] = true
	}
	for _, g := range goals {
		if g.want.equal(g.have) || g.want.in != g.have.in {
			continue
		}
		names, err := m.namesOf(g.have, g.path)
		if err != nil {
			return nil, err
		}
		for _, p := range names {
			if byPath[p] {
				continue
			}
			cur, _, err := m.view.Current(p)
			if err != nil {
				return nil, err
			}
			own, err := m.view.History(p, false)
			if err != nil {
				return nil, err
			}
			for _, v := range slices.Backward(own) {
				if seq > 0 && v.Seq > seq {
					continue
				}
				if want := stateOf(v); want.in == g.want.in && want.equal(g.want) {
					goals, byPath[p] = append(goals, goal{path: p, have: stateOf(cur), want: want}), true
					break
				}
				if seq > 0 {
					break
				}
			}
		}
	}
	return goals, nil
}

// asItsOtherNames corrects what a name held that was first heard of when a selected
// change removed it: the file's content at that time may come from the same
// selection. Before that, the name held what the file's other names held.
func asItsOtherNames(goals []goal) {
	before := map[store.Inode]state{}
	for _, g := range goals {
		if g.want.regular() && g.want.nlink > 1 && !g.made && g.want.seq < g.since {
			before[g.want.in] = g.want
		}
	}
	for i := range goals {
		g := &goals[i]
		if was, ok := before[g.want.in]; ok && g.unseen && g.want.regular() && g.want.seq >= g.since {
			was.seq, was.nlink = g.want.seq, max(was.nlink, g.want.nlink)
			g.want = was
		}
	}
}

// asBeforeOtherNames does the same where the path of the other name is not asked for,
// perhaps because it is gone.
func (m *maker) asBeforeOtherNames(goals []goal) error {
	for i := range goals {
		g := &goals[i]
		v := m.other[g.want.in]
		if !g.unseen || !g.want.regular() || v.Seq == 0 || v.Seq >= g.want.seq || v.Path == g.path {
			continue
		}
		own, err := m.view.History(v.Path, false)
		if err != nil {
			return err
		}
		c := &chain{m, own}
		_, at := c.at(c.index(v.Seq) - 1)
		if at < 0 {
			continue
		}
		was, err := m.described(own, at)
		if err != nil {
			return err
		}
		if was.regular() && was.in == g.want.in {
			was.seq, was.nlink = g.want.seq, g.want.nlink
			g.want = was
		}
	}
	return nil
}

// nameKeepers tells of names that go, or become another file's, whose file was changed
// by them and has names of which nothing is known: those keep the change.
func (m *maker) nameKeepers(sel selection, goals []goal) error {
	changed := map[store.Inode]bool{} // by whatever name
	for _, vs := range sel {
		for _, v := range vs {
			if changes(*v) {
				changed[store.InodeOf(v.Stat)] = true
			}
		}
	}
	for _, g := range goals {
		if !g.have.regular() || g.have.nlink < 2 || !g.want.absent() && !g.parted() || !changed[g.have.in] {
			continue
		}
		known, err := m.namesOf(g.have, g.path)
		if err != nil {
			return err
		}
		if n := int(g.have.nlink) - 1 - len(known); n > 0 {
			m.lose(store.Conflict{Path: g.path, Why: fmt.Sprintf("its file has %d other names of which nothing is known, and which keep what was changed", n)})
		}
	}
	return nil
}

// nameFormerKeepers tells of files that were changed by a name that they do not have any
// more, and that have names of which nothing is known, and no others, or only such as go.
// What is at that name now says nothing of them. same are the goals that are reached.
func (m *maker) nameFormerKeepers(sel selection, goals, same []goal) error {
	back := map[store.Inode]bool{} // those are told of when they become files of their own
	byPath := map[store.Path]*goal{}
	for i := range goals {
		back[goals[i].want.in] = true
		byPath[goals[i].path] = &goals[i]
	}
	here := func(p store.Path, in store.Inode) bool { return byPath[p] != nil && byPath[p].have.in == in }
	begun := int64(1<<63 - 1)
	for _, vs := range sel {
		for _, v := range vs {
			begun = min(begun, v.Time)
		}
	}
	told := map[store.Inode]bool{}
	for _, g := range slices.Concat(goals, same) {
		for _, seq := range slices.Sorted(maps.Keys(sel[g.path])) {
			v := *sel[g.path][seq]
			in := store.InodeOf(v.Stat)
			if !changes(v) || !regular(v) || in.Ino == 0 || in.Birth > begun || back[in] || told[in] || here(g.path, in) {
				continue
			}
			was, err := m.view.Version(v.Prev)
			if errors.Is(err, store.ErrNotFound) || err == nil && store.InodeOf(was.Stat) != in {
				continue // it came to the name
			}
			if err != nil {
				return err
			}
			st := stateOf(v)
			st.nlink = max(st.nlink, 2) // as it was, perhaps, when that was told
			names, err := m.namesOf(st, "")
			if err != nil {
				return err
			}
			if slices.ContainsFunc(names, func(p store.Path) bool { return byPath[p] == nil }) {
				continue
			}
			n, err := m.strangers(in, seq)
			if err != nil {
				return err
			}
			if n > 0 {
				told[in] = true
				m.lose(store.Conflict{Path: g.path, Why: fmt.Sprintf("the file that it was has %d other names of which nothing is known, and which keep what was changed", n)})
			}
		}
	}
	return nil
}

// parted: the path may hold what it should, but in another file than the one
// whose name it was, and that has or had other names.
func (g *goal) parted() bool {
	return (g.want.nlink > 1 || g.have.nlink > 1) && g.want.in.Ino != 0 && g.have.in.Ino != 0 && !g.want.dir() && g.want.in != g.have.in
}

// strangers is how many names a file had, just before a version was made, of
// which nothing is known: in .git, say, or ignored. The links and removals since
// are counted back.
func (m *maker) strangers(in store.Inode, since uint64) (int, error) {
	paths, err := m.view.NamesOf(in)
	if err != nil {
		return 0, err
	}
	type seen struct {
		nlink int
		seq   uint64 // until when it was so
	}
	at := int64(0)
	if v, err := m.view.Version(since); err == nil {
		at = v.Time
	}
	var known []seen
	var links, unlinks []uint64
	err = m.view.Histories(paths, nil, func(_ store.Path, own []store.Version) error {
		here := func(i int) bool { return i >= 0 && !own[i].Deleted() && store.InodeOf(own[i].Stat) == in }
		last := -1
		for i := range own {
			if own[i].Seq < since && (own[i].Time != at || own[i].From == "") { // else made by the same rename
				last = i
			} else if here(i) && !here(i-1) && own[i].Op == store.OpLink {
				links = append(links, own[i].Seq)
			} else if here(i-1) && !here(i) && own[i].Op != store.OpMoved && own[i].Op != store.OpExchange {
				unlinks = append(unlinks, own[i].Seq)
			}
		}
		switch {
		case here(last):
			k := seen{int(own[last].Stat.Nlink), m.view.Seq() + 1}
			if last+1 < len(own) {
				k.seq = own[last+1].Seq
			}
			if own[last].Linked >= at && at > 0 {
				k.nlink--
			}
			known = append(known, k)
		case last < 0 && len(own) > 0 && store.InodeOf(own[0].Stat) == in && (own[0].Op == store.OpBaseline || own[0].Op == store.OpMoved):
			known = append(known, seen{int(own[0].Stat.Nlink), own[0].Seq}) // found there later
		}
		return nil
	})
	most := 0
	for _, k := range known {
		n := k.nlink
		for _, seq := range links {
			if seq < k.seq {
				n--
			}
		}
		for _, seq := range unlinks {
			if seq < k.seq {
				n++
			}
		}
		most = max(most, n)
	}
	return most - len(known), err
}

// join finds the goals whose paths were names of one file in the wanted state,
// and says of which name's file each is to become a name. What cannot be joined
// with all of its names again is told of.
func (x *stepper) join(all []*goal, fates map[*goal]fate) (map[*goal]store.Path, error) {
	groups, order := map[store.Inode][]*goal{}, []store.Inode{}
	for _, g := range all {
		if w := g.want; !g.made && !w.absent() && !w.dir() && w.in.Ino != 0 {
			if groups[w.in] == nil {
				order = append(order, w.in)
			}
			groups[w.in] = append(groups[w.in], g)
		}
	}
	out := map[*goal]store.Path{}
	for _, in := range order {
		gs := groups[in]
		if !slices.ContainsFunc(gs, func(g *goal) bool { return g.want.nlink > 1 }) {
			continue
		}
		first := gs[0]
		if i := slices.IndexFunc(gs, func(g *goal) bool { return g.have.in == in }); i >= 0 {
			first = gs[i]
		}
		// The file itself goes on, or a name that stays stands for it.
		to, is := first.path, first.have.in
		same := is == in && (first.want.sameContent(first.have) || first.have.nlink > 1) && len(fates[first].others) == 0
		if !same {
			is = store.Inode{}
		}
		names, err := x.view.NamesOf(in)
		if err != nil {
			return nil, err
		}
		changed := store.Path("")
		for _, p := range names {
			if x.goals[p] != nil {
				continue
			}
			st, ok, err := x.stillName(p, in)
			if err != nil {
				return nil, err
			}
			if !ok {
				continue
			}
			if st.equal(first.want) {
				to, is, same = p, st.in, true
				break
			}
			changed = p
		}
		strangers := 0
		if !same || is != in { // what stands for it has not the names of which nothing is known
			strangers, err = x.strangers(in, first.since)
			if err != nil {
				return nil, err
			}
		}
		for _, g := range gs {
			switch {
			case !g.want.equal(first.want):
				x.parts(g, fmt.Sprintf("%q", string(first.path)))
			case strangers > 0:
				x.parts(g, fmt.Sprintf("%d of which nothing is known, and which may not be as they were", strangers))
			case !same && changed != "":
				x.parts(g, fmt.Sprintf("%q, which is something else now", string(changed)))
			}
			switch {
			case g.path == to || !g.want.equal(first.want):
			case same && g.have.in == is: // it is that already
				g.want.in = is
			default:
				out[g] = to
			}
		}
	}
	return out, nil
}

// rejoin makes paths names of their old file again while there is one that is to
// go: with it the file itself would go, and what other names it has would be
// another file's.
func (x *stepper) rejoin(all []*goal) {
	going := map[store.Inode]*goal{}
	for _, g := range all {
		if g.want.absent() && g.have.nlink > 1 && !g.have.dir() && g.have.in.Ino != 0 {
			going[g.have.in] = g
		}
	}
	for _, g := range all {
		last := going[g.want.in]
		if last == nil || g.made || g.have.in == g.want.in || g.have.dir() || !last.have.equal(g.want) || !x.reachable(g.path) {
			continue
		}
		x.parents(g.path, true)
		x.add(expect(store.Step{Do: store.DoLink, Path: g.path, To: last.path, Blob: last.have.blob}, g.have))
		g.have = last.have
	}
}

// reachable: no file is in the place of a directory above a path.
func (x *stepper) reachable(p store.Path) bool {
	for i := range len(p) {
		if g := x.goals[p[:i]]; p[i] == '/' && g != nil && !g.have.absent() && !g.have.dir() {
			return false
		}
	}
	return true
}

// stillName: what is at a path is a file, or stands for it since a plan brought
// it back.
func (m *maker) stillName(p store.Path, in store.Inode) (state, bool, error) {
	v, found, err := m.view.Current(p)
	if err != nil || !found || v.Deleted() {
		return state{}, false, err
	}
	if store.InodeOf(v.Stat) == in {
		return stateOf(v), true, nil
	}
	if v.Plan == "" {
		return state{}, false, nil
	}
	own, err := m.view.History(p, false)
	if err != nil {
		return state{}, false, err
	}
	c := &chain{m, own}
	e, i := c.at(len(own) - 1)
	is := stateOf(v)
	if i >= 0 && is.regular() && is.blob == (store.Hash{}) { // ignored: nobody has read what the plan wrote
		is.blob = e.Blob
	}
	return is, i >= 0 && !e.Deleted() && store.InodeOf(e.Stat) == in, nil
}

func (x *stepper) parts(g *goal, from string) {
	x.lose(store.Conflict{Path: g.path, Why: "it is a file of its own now; it was one file with other names: " + from})
}
