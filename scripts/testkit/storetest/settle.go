package storetest

import (
	"maps"
	"slices"

	"golang.org/x/sys/unix"
)

// settle drops, changes or adds goals until the result is a tree in which no work of others is
// lost. It records conflicts for the cells concerned.
func (o *Oracle) settle(out *Outcome) {
	now := o.Cells(o.ops)
	drop := func(c Cell, why string) {
		delete(out.Goals, c)
		delete(out.cancels, c)
		out.Conflicts[c] = why
	}
	tried := map[int]bool{}
	// stay changes goals so that the given nodes stay in the tree, and reports whether it did.
	stay := func(nodes []int, after map[Cell]Value) (changed bool) {
		for _, n := range nodes {
			out.Conflicts[Cell{EntryCell, n, ""}] = "changed since"
			if !tried[n] && o.bringBack(out, n, after) {
				tried[n] = true
				return true
			}
			for _, c := range sorted(out.Goals) {
				if c.Kind == EntryCell && now[c].Node == n {
					drop(c, "somebody else has changed what is there")
					changed = true
				}
			}
			if changed {
				return true
			}
		}
		return false
	}
	for again := true; again; {
		again = false
		after := o.After(out)
		places := o.places(after)
		for _, c := range sorted(out.Goals) {
			n := out.Goals[c].Node
			if c.Kind == EntryCell && len(places[n]) > 1 && (o.kind[n] == unix.S_IFDIR || o.movedOn(out, c, n, now)) {
				drop(c, "it is elsewhere now")
				again = true
				break
			}
		}
		if again {
			continue
		}
		homeless, held := o.endangered(out, now, after, places)
		if stay(homeless, after) {
			again = true
			continue
		}
		for _, c := range sorted(out.Goals) {
			// A goal that sets an entry needs the entry's directory.
			if _, there := places[c.Node]; c.Kind == EntryCell && out.Goals[c].Set && !there {
				if out.places(c.Node) {
					continue // another goal already brings the directory back
				}
				again = true
				if !tried[c.Node] && o.bringBack(out, c.Node, after) {
					tried[c.Node] = true
					break
				}
				v, cancels := out.Goals[c], out.cancels[c]
				drop(c, "its directory cannot be there")
				if in := (Cell{EntryCell, o.instead(c.Node, after, places), c.Name}); in.Node != 0 && !after[in].Set {
					delete(out.Conflicts, c)
					out.Goals[in], out.cancels[in] = v, cancels
				}
				break
			}
		}
		// Nodes in a directory that would have no place come last, because they may stay together
		// with the directory.
		again = again || stay(held, after)
		for _, c := range sorted(out.Goals) {
			if v := out.Goals[c]; !again && c.Kind == EntryCell && v.Set && places[v.Node] == nil {
				drop(c, "it would be in its own subtree")
				again = true
			}
		}
	}
	// Drop goals for nodes that have no place in the tree before or after the plan. Drop conflicts
	// of nodes that have no place after the plan.
	places, been := o.places(o.After(out)), o.places(now)
	maps.DeleteFunc(out.Goals, func(c Cell, _ Value) bool {
		_, there := places[c.Node]
		_, was := been[c.Node]
		return c.Kind != EntryCell && !there && !was
	})
	maps.DeleteFunc(out.Conflicts, func(c Cell, _ string) bool {
		_, there := places[c.Node]
		return c.Kind != EntryCell && !there
	})
}

// places reports whether one of the goals gives the node n an entry.
func (out *Outcome) places(n int) bool {
	for c, v := range out.Goals {
		if c.Kind == EntryCell && v.Node == n {
			return true
		}
	}
	return false
}

// bringBack restores a node at the place that the oldest of the undone facts gave it, or else at
// its last place, but not in its own subtree. If a plan gave it several places at once, it gets all of them.
func (o *Oracle) bringBack(out *Outcome, n int, after map[Cell]Value) bool {
	var had []Fact
	for _, f := range o.Facts {
		if f.Cell.Kind == EntryCell && f.Value.Node == n && out.chosen[f.Seq] {
			had = append(had, f)
		}
	}
	for _, f := range slices.Backward(o.Facts) {
		if f.Cell.Kind == EntryCell && f.Value.Node == n && o.heldSince(f, out) {
			had = append(had, f)
		}
	}
	had = slices.DeleteFunc(had, func(f Fact) bool {
		_, decided := out.Goals[f.Cell]
		return after[f.Cell].Set || out.Conflicts[f.Cell] != "" && !decided || inSubtree(after, f.Cell.Node, n, nil)
	})
	for _, f := range had {
		if f.Op != had[0].Op {
			continue
		}
		last := f.Seq // facts before the last one that put the node there do not count
		for _, g := range o.Facts {
			if g.Cell == f.Cell && g.Value.Node == n {
				last = g.Seq
			}
		}
		out.Goals[f.Cell], out.cancels[f.Cell] = f.Value, o.since(f.Cell, last+1)
		changed := func(g Fact) bool { return out.cancels[f.Cell][g.Seq] && !out.chosen[g.Seq] }
		if len(out.chosen) > 0 && slices.ContainsFunc(out.facts, changed) {
			out.cancels[f.Cell] = nil // an undo does not cancel what others did
		}
		if o.Cells(o.ops)[f.Cell] == f.Value {
			delete(out.Goals, f.Cell)
			delete(out.cancels, f.Cell)
		}
	}
	return len(had) > 0
}

// inSubtree reports whether directory d is n or in its subtree. below holds the directories on the way
// to d.
func inSubtree(after map[Cell]Value, d, n int, below []int) bool {
	below = append(slices.Clip(below), d)
	for c, v := range after {
		if c.Kind == EntryCell && v.Node == d && !slices.Contains(below, c.Node) && inSubtree(after, c.Node, n, below) {
			return true
		}
	}
	return d == n
}

// heldSince reports whether a fact still had its effect when the first of the undone facts happened, or
// happened later.
func (o *Oracle) heldSince(f Fact, out *Outcome) bool {
	first := slices.IndexFunc(o.Facts, out.undone)
	next := slices.IndexFunc(o.Facts, func(g Fact) bool { return g.Seq > f.Seq && g.Cell == f.Cell })
	return next < 0 || next >= first
}

// instead returns the directory that the plan leaves at the last place of directory n, or 0 if
// there is none.
func (o *Oracle) instead(n int, after map[Cell]Value, places map[int][]Cell) int {
	for _, f := range slices.Backward(o.Facts) {
		if is := after[f.Cell].Node; f.Cell.Kind == EntryCell && f.Value.Node == n && o.kind[is] == unix.S_IFDIR && places[is] != nil {
			return is
		}
	}
	return 0
}

// endangered returns nodes that would have no place and must be kept: homeless ones, and those held
// by a directory that has no place itself. A node must be kept if the undone facts gave it a place,
// and either others have changed it since (they wrote to the file or added an entry to the
// directory), or the undone facts took from it a place that they had not given it.
func (o *Oracle) endangered(out *Outcome, now, after map[Cell]Value, places map[int][]Cell) (homeless, held []int) {
	is, inEntry, entries := o.places(now), map[int]bool{}, map[int]bool{}
	for c, v := range after {
		if c.Kind == EntryCell && v.Set {
			inEntry[v.Node], entries[c.Node] = true, true
		}
	}
	for n := 2; n <= len(o.kind); n++ {
		if _, there := places[n]; there {
			continue
		}
		placed := o.placed(out, n)
		removed := 0
		for _, f := range out.facts {
			if f.Cell.Kind == EntryCell && f.Before.Node == n {
				removed = f.Seq
			}
		}
		_, exists := is[n]
		switch {
		case placed == 0, !exists && !out.chosen[removed]: // in the latter case another process has removed the node
		case out.touched[n] <= placed && !(exists && (entries[n] || o.tookPlace(out, n))):
		case inEntry[n]:
			held = append(held, n)
		default:
			homeless = append(homeless, n)
		}
	}
	return homeless, held
}

// placed returns the operation of the first undone fact that gave a node a place, or gave it one again
// after others had removed it. It returns 0 if there is none.
func (o *Oracle) placed(out *Outcome, n int) (op int) {
	places, removed := 0, false // removed: others took its last place
	for _, f := range o.Facts {
		had, has := f.Before.Node == n, f.Value.Node == n
		if f.Cell.Kind != EntryCell || had == has {
			continue
		}
		if had {
			places--
			removed = places == 0 && !out.undone(f)
			continue
		}
		if out.chosen[f.Seq] && (op == 0 || removed) {
			op = f.Op
		}
		places, removed = places+1, false
	}
	return op
}

// tookPlace reports whether the undone facts took a place from a node that they had not given it. Facts
// that the goals undo do not count.
func (o *Oracle) tookPlace(out *Outcome, n int) bool {
	held, counts := map[Cell]Fact{}, map[int]bool{}
	for _, f := range out.facts {
		counts[f.Seq] = true
	}
	for _, f := range o.Facts {
		if chosen := out.chosen[f.Seq]; f.Cell.Kind == EntryCell && (chosen || counts[f.Seq]) && !out.undoes(f) {
			if by := held[f.Cell]; chosen && by.Value.Node == n && f.Value.Node != n && !out.chosen[by.Seq] {
				return true
			}
			held[f.Cell] = f
		}
	}
	return false
}

// movedOn reports whether an undone rename took the name c from node n, and others have since
// removed the name that the rename gave the node.
func (o *Oracle) movedOn(out *Outcome, c Cell, n int, now map[Cell]Value) bool {
	for _, f := range o.Facts {
		if f.Cell != c || f.Before.Node != n || !out.chosen[f.Seq] {
			continue
		}
		for _, g := range o.Facts {
			if g.Op != f.Op || g.Cell.Kind != EntryCell || g.Value.Node != n || now[g.Cell].Node == n {
				continue
			}
			next := slices.IndexFunc(o.Facts, func(h Fact) bool { return h.Seq > g.Seq && h.Cell == g.Cell })
			if next >= 0 && !out.undone(o.Facts[next]) {
				return true
			}
		}
	}
	return false
}
