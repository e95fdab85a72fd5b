package undo

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"cachebro/store"
)

// manyLost is the largest number of paths with one reason that are listed one by one.
const manyLost = 10

// problem is a path that a plan leaves alone or cannot restore.
type problem struct {
	store.Conflict
	c     *cell // the cell that has the problem, see nameCells; nil: only the path is known
	size  int64 // size of a lost content in bytes
	stays *node // a file that does not move to the path and has another path after the plan; nil: none
	inUse bool  // it is a directory that stays only because of other files in it
}

func (m *maker) conflict(x store.Conflict) {
	m.conflicts = append(m.conflicts, problem{Conflict: x})
}

// conflictAt lists a conflict of a cell. It sets the path in x.
func (m *maker) conflictAt(h *past, c *cell, x store.Conflict) {
	x.Path = h.title(c)
	m.conflicts = append(m.conflicts, problem{Conflict: x, c: c})
}

func (m *maker) lose(x store.Conflict) { m.lost = append(m.lost, problem{Conflict: x}) }

// loseAt lists a cell as lost. It sets the path in x.
func (m *maker) loseAt(h *past, c *cell, x store.Conflict, size int64) {
	x.Path = h.title(c)
	m.lost = append(m.lost, problem{Conflict: x, c: c, size: size})
}

// unknownBefore returns the reason for listing a path if its state before its first version is
// unknown.
func unknownBefore(first *store.Version) store.Conflict {
	why := "what was there before is not known"
	if first.Path == "" {
		why = "the former mode of the project's directory is not known: set it yourself (chmod 755 .)"
	}
	return store.Conflict{Path: first.Path, Why: why, Actor: first.Actor, Time: first.Time}
}

// nameCells sets the paths of problems with a cell to the cell's path after the plan. Steps of the plan
// also use the paths after its renames.
func (m *maker) nameCells(a *aims, o *outcome) {
	for _, all := range [][]problem{m.conflicts, m.lost} {
		for i := range all {
			x := &all[i]
			if x.c != nil {
				x.Path = a.pathAfter(o, x.c)
			}
			if x.stays != nil {
				x.Why += fmt.Sprintf("; %q stays", string(a.pathAfter(o, &x.stays.content)))
			}
		}
	}
}

// gatherLost combines long lists of lost paths by directory, with counts and bytes.
func (m *maker) gatherLost() {
	byWhy := map[string][]problem{}
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
		dirs := map[string][]problem{}
		for _, c := range all {
			dir := path.Dir(string(c.Path))
			dirs[dir] = append(dirs[dir], c)
		}
		for deepest := 1; len(dirs) > manyLost && deepest > 0; { // combine the deepest directories with their parents
			deepest = 0
			for dir := range dirs {
				deepest = max(deepest, strings.Count(dir, "/"))
			}
			up := map[string][]problem{}
			for dir, cs := range dirs {
				if deepest > 0 && strings.Count(dir, "/") == deepest {
					dir = path.Dir(dir)
				}
				up[dir] = append(up[dir], cs...)
			}
			dirs = up
		}
		for _, dir := range slices.Sorted(maps.Keys(dirs)) {
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
