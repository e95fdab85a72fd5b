package undo

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"cachebro/store"
)

// manyLost is up to how many paths of one reason are named one by one.
const manyLost = 10

// lost is what cannot be brought back.
type lost struct {
	store.Conflict
	size  int64         // of its content, in bytes
	first store.Version // the first that is known of what was there before; Seq 0: more is known
}

// loseBefore names a path at which something was that nobody saw before first.
func (m *maker) loseBefore(first store.Version) {
	c := store.Conflict{Path: first.Path, Why: "what was there before is not known", Actor: first.Actor, Time: first.Time}
	m.lost = append(m.lost, lost{Conflict: c, first: first})
}

// gatherLost names what cannot come back by directory, with counts and bytes, where
// there is too much of it to be read.
func (m *maker) gatherLost() {
	byWhy := map[string][]lost{}
	var order []string
	for _, c := range m.lost {
		if byWhy[c.Why] == nil {
			order = append(order, c.Why)
		}
		byWhy[c.Why] = append(byWhy[c.Why], c)
	}
	var out []store.Conflict
	for _, why := range order {
		all := byWhy[why]
		if len(all) <= manyLost {
			for _, c := range all {
				out = append(out, c.Conflict)
			}
			continue
		}
		dirs := map[string][]lost{}
		for _, c := range all {
			dir := path.Dir(string(c.Path))
			dirs[dir] = append(dirs[dir], c)
		}
		for deepest := 1; len(dirs) > manyLost && deepest > 0; { // what is deepest goes to what is above
			deepest = 0
			for dir := range dirs {
				deepest = max(deepest, strings.Count(dir, "/"))
			}
			up := map[string][]lost{}
			for dir, cs := range dirs {
				if deepest > 0 && strings.Count(dir, "/") == deepest {
					dir = path.Dir(dir)
				}
				up[dir] = append(up[dir], cs...)
			}
			dirs = up
		}
		names := make([]string, 0, len(dirs))
		for dir := range dirs {
			names = append(names, dir)
		}
		slices.Sort(names)
		for _, dir := range names {
			cs := dirs[dir]
			if len(cs) == 1 {
				out = append(out, cs[0].Conflict)
				continue
			}
			c := store.Conflict{Path: store.Path(dir), Actor: cs[0].Actor, Time: cs[0].Time}
			var size int64
			for _, one := range cs {
				size += one.size
			}
			c.Why = fmt.Sprintf("%d files, %.1f MiB: %s", len(cs), float64(size)/(1<<20), why)
			out = append(out, c)
		}
	}
	m.plan.Lost = out
}

// departure is how a directory went to where nothing is kept, with all that it held.
type departure struct {
	home store.Path    // where it should be
	at   store.Path    // where it was by then
	by   store.Version // of that directory, or of one above it
}

// nameDeparted names the directories that are wanted back and went to where nothing is
// kept, by whatever name and in whatever other directory: what nobody has looked at
// went with them. What only went with a directory that is named already is not named.
func (m *maker) nameDeparted(goals []goal) error {
	var gone []departure
	for i := range goals {
		g := &goals[i]
		if !g.want.dir() {
			continue
		}
		v, err := m.stood(g)
		if err != nil {
			return err
		}
		d, ok, err := m.departed(v)
		if err != nil {
			return err
		}
		if ok && d.by.Seq >= g.since {
			d.home = g.path
			gone = append(gone, d)
		}
	}
	slices.SortFunc(gone, func(a, b departure) int { return strings.Compare(string(a.home), string(b.home)) })
	for i, d := range gone {
		if !slices.ContainsFunc(gone[:i], d.within) {
			m.lose(store.Conflict{Path: d.home, Why: d.by.NoContent, Actor: d.by.Actor, Time: d.by.Time})
		}
	}
	return nil
}

// within: d went below another directory that it should be below.
func (d departure) within(o departure) bool {
	return d.by.Seq == o.by.Seq && d.home != o.home && d.home.Inside(o.home) && d.at == o.at+d.home[len(o.home):]
}

// stood is the version that says what a goal's path was before what is taken back.
func (m *maker) stood(g *goal) (store.Version, error) {
	own, err := m.view.History(g.path, false)
	if err != nil {
		return store.Version{}, err
	}
	for _, v := range slices.Backward(own) {
		if v.Seq <= g.want.seq || v.Seq < g.since {
			if stateOf(v).dir() {
				return v, nil
			}
			break
		}
	}
	if g.want.seq == 0 {
		return store.Version{}, nil
	}
	v, err := m.view.Version(g.want.seq)
	if errors.Is(err, store.ErrNotFound) { // dropped from the log
		err = nil
	}
	return v, err
}

// departed follows a directory from name to name to the end that it had; false: it is
// there, or nothing was kept from us.
func (m *maker) departed(v store.Version) (d departure, ok bool, err error) {
	// A directory that went to and fro 400 times had two histories, read 400 times each.
	read := map[store.Path][]store.Version{}
	history := func(p store.Path) (own []store.Version, err error) {
		own, ok := read[p]
		if !ok {
			own, err = m.view.History(p, false)
			read[p] = own
		}
		return own, err
	}
	for range 10_000 {
		if v.Seq == 0 || !stateOf(v).dir() {
			return d, false, nil
		}
		own, err := history(v.Path)
		if err != nil {
			return d, false, err
		}
		i := slices.IndexFunc(own, func(o store.Version) bool { return o.Seq > v.Seq })
		if i < 0 {
			return d, false, nil
		}
		next, to := own[i], store.Path("")
		switch {
		case next.Op == store.OpRmdir:
			d.at = next.Path
			d.by, ok, err = m.removal(next)
			return d, ok, err
		case next.Op == store.OpMoved:
			to = next.To
		case next.Op == store.OpExchange:
			to = next.From
		case next.From != "": // another one came in its place
			return d, false, nil
		}
		if to == "" {
			v = next
			continue
		}
		own, err = history(to)
		if err != nil {
			return d, false, err
		}
		is := v
		i = slices.IndexFunc(own, func(o store.Version) bool { return o.From == is.Path && o.Prev == is.Seq })
		if i < 0 {
			return d, false, nil
		}
		v = own[i]
	}
	return d, false, nil
}

// removal is the version by which a directory went with all that it held: its own, or
// that of one above it, which the store makes right after it.
func (m *maker) removal(v store.Version) (store.Version, bool, error) {
	if v.NoContent != "" {
		return v, !v.Excluded(), nil
	}
	if next, err := m.view.Version(v.Seq + 1); err != nil || next.Time != v.Time || !next.Deleted() {
		return v, false, nil
	}
	for i := len(v.Path) - 1; i > 0; i-- {
		if v.Path[i] != '/' {
			continue
		}
		own, err := m.view.History(v.Path[:i], false)
		if err != nil {
			return v, false, err
		}
		if j := slices.IndexFunc(own, func(o store.Version) bool {
			return o.Seq > v.Seq && o.Time == v.Time && o.Op == store.OpRmdir && o.NoContent != ""
		}); j >= 0 {
			return own[j], !own[j].Excluded(), nil
		}
	}
	return v, false, nil
}
