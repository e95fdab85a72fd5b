package undo

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"cachebro/store"
)

// manyLost is the largest number of paths with one reason that are listed one by one.
const manyLost = 10

// lost is a path that cannot be restored.
type lost struct {
	store.Conflict
	size int64 // size of its content in bytes
	of   *node // node of the content or metadata; nil: see Path
}

// findLost gives lost nodes the paths that they have in the tree after the plan.
func (m *maker) findLost(a *aims, o *outcome) {
	for i := range m.lost {
		if l := &m.lost[i]; l.of != nil && len(o.places[l.of]) > 0 {
			l.Path = a.pathIn(o, o.places[l.of][0])
		}
	}
}

// loseBefore lists a path as lost because nobody saw what was there before version first.
func (m *maker) loseBefore(first store.Version) {
	c := store.Conflict{Path: first.Path, Why: "what was there before is not known", Actor: first.Actor, Time: first.Time}
	m.lost = append(m.lost, lost{Conflict: c})
}

// gatherLost combines long lists of lost paths by directory, with counts and bytes.
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
		for deepest := 1; len(dirs) > manyLost && deepest > 0; { // combine the deepest directories with their parents
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
