package storetest

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"cachebro/store"

	"golang.org/x/sys/unix"
)

// Cell is the smallest part of a tree that has a value: an entry of a directory, the content of a
// file (or the target of a link), or the mode of a file or directory.
type Cell struct {
	Kind CellKind
	Node int    // the directory of an entry, otherwise the file
	Name string // name of an entry
}

// CellKind distinguishes the three kinds of cells.
type CellKind string

// The kinds of cells.
const (
	EntryCell   CellKind = "entry"
	ContentCell CellKind = "content"
	ModeCell    CellKind = "mode"
)

// Value is the value of a cell. The zero Value means that the cell has no value.
type Value struct {
	Set  bool
	Node int
	Data string
	Mode uint32
}

// Fact records that a cell got a value.
type Fact struct {
	Seq           int
	Op            int
	Cell          Cell
	Value, Before Value
	Session       store.SessionID
	Plan          string
	cancels       map[int]bool // for a fact of a plan: the facts that it undoes
}

const root = 1

// Oracle is the model of a history. It holds facts about cells, and derives everything else from
// them by brute force. It decides for each cell what undo, redo and restore should do. A cell that
// still has the value that the undone facts gave it gets its value from before these facts. The
// rules in settle ensure that the result is a tree.
type Oracle struct {
	Facts []Fact
	kind  map[int]uint32 // S_IFMT, by node
	nodes map[uint64]int // by inode number
	ops   int
}

// NewOracle returns the history of an empty tree.
func NewOracle() *Oracle {
	return &Oracle{kind: map[int]uint32{root: unix.S_IFDIR}, nodes: map[uint64]int{}}
}

// Cells returns the values of all cells after operation op.
func (o *Oracle) Cells(op int) map[Cell]Value {
	out := map[Cell]Value{}
	for _, f := range o.Facts {
		if f.Op <= op {
			out[f.Cell] = f.Value
		}
	}
	return out
}

// Now returns the number of the last operation.
func (o *Oracle) Now() int { return o.ops }

// Observe records everything that has changed in a tree as one operation.
func (o *Oracle) Observe(t *Tree, session store.SessionID, plan string) int {
	o.ops++
	was, is := o.Cells(o.ops), map[Cell]Value{}
	dirs := map[string]int{".": root}
	for _, p := range t.Paths(func(store.Path, *File) bool { return true }) {
		f := t.Files[p]
		n := o.nodes[f.Ino]
		if n == 0 {
			n = len(o.kind) + 1
			o.nodes[f.Ino], o.kind[n] = n, f.Mode&unix.S_IFMT
		}
		dirs[string(p)] = n
		is[Cell{EntryCell, dirs[path.Dir(string(p))], path.Base(string(p))}] = Value{Set: true, Node: n}
		is[Cell{ModeCell, n, ""}] = Value{Set: true, Mode: f.Mode}
		if !f.dir() {
			is[Cell{ContentCell, n, ""}] = Value{Set: true, Data: f.Data + f.Target}
		}
	}
	for c, v := range was {
		if c.Kind == EntryCell && v.Set && !is[c].Set {
			is[c] = Value{}
		}
	}
	for _, c := range sorted(is) {
		if is[c] != was[c] {
			o.Facts = append(o.Facts, Fact{Seq: len(o.Facts) + 1, Op: o.ops, Cell: c, Value: is[c], Before: was[c], Session: session, Plan: plan})
		}
	}
	return o.ops
}

// SameFile records that a new inode continues the history of an old inode, as in an atomic save.
func (o *Oracle) SameFile(old, now uint64) { o.nodes[now] = o.nodes[old] }

func sorted[V any](m map[Cell]V) []Cell {
	return slices.SortedFunc(maps.Keys(m), func(a, b Cell) int {
		return cmp.Or(strings.Compare(string(a.Kind), string(b.Kind)), cmp.Compare(a.Node, b.Node), strings.Compare(a.Name, b.Name))
	})
}

// walk calls fn with the entries of a tree, parents first.
func (o *Oracle) walk(cells map[Cell]Value, fn func(p store.Path, c Cell, n int)) {
	kids := map[int][]Cell{}
	for _, c := range sorted(cells) {
		if c.Kind == EntryCell && cells[c].Set {
			kids[c.Node] = append(kids[c.Node], c)
		}
	}
	seen := map[int]bool{}
	var down func(dir store.Path, d int)
	down = func(dir store.Path, d int) {
		if seen[d] {
			return // the directory is in two places; settle resolves that
		}
		seen[d] = true
		for _, c := range kids[d] {
			p := store.Path(path.Join(string(dir), c.Name))
			fn(p, c, cells[c].Node)
			if o.kind[cells[c].Node] == unix.S_IFDIR {
				down(p, cells[c].Node)
			}
		}
	}
	down("", root)
}

// Tree describes each path. A description contains the first of the file's names.
func (o *Oracle) Tree(cells map[Cell]Value) map[store.Path]string {
	out, first := map[store.Path]string{}, map[int]store.Path{}
	o.walk(cells, func(p store.Path, _ Cell, n int) {
		if old, ok := first[n]; !ok || p < old {
			first[n] = p
		}
	})
	o.walk(cells, func(p store.Path, _ Cell, n int) {
		out[p] = fmt.Sprintf("%o %q, a name of %q", cells[Cell{ModeCell, n, ""}].Mode, cells[Cell{ContentCell, n, ""}].Data, string(first[n]))
	})
	return out
}

// Shape describes a tree in the same way as Oracle.Tree.
func (t *Tree) Shape() map[store.Path]string {
	out, first := map[store.Path]string{}, map[*File]store.Path{}
	for _, p := range t.Paths(func(store.Path, *File) bool { return true }) {
		f := t.Files[p]
		if _, ok := first[f]; !ok {
			first[f] = p
		}
		out[p] = fmt.Sprintf("%o %q, a name of %q", f.Mode, f.Data+f.Target, string(first[f]))
	}
	return out
}

// places returns, for each node, the entries that refer to it.
func (o *Oracle) places(cells map[Cell]Value) map[int][]Cell {
	out := map[int][]Cell{root: nil}
	o.walk(cells, func(_ store.Path, c Cell, n int) { out[n] = append(out[n], c) })
	return out
}

// cancelled returns the facts that plans have undone. It leaves out those for which the plan's own
// fact was undone as well, or matches and so is to be undone now.
func (o *Oracle) cancelled(match func(Fact) bool) map[int]bool {
	gone := map[int]bool{}
	for _, f := range slices.Backward(o.Facts) {
		if !gone[f.Seq] && !match(f) {
			maps.Copy(gone, f.cancels)
		}
	}
	return gone
}

// effective returns the facts without those that were undone and without those that undid them. A
// fact that is to be undone is included even if it belongs to a plan.
func (o *Oracle) effective(match func(Fact) bool) []Fact {
	gone := o.cancelled(match)
	return slices.DeleteFunc(slices.Clone(o.Facts), func(f Fact) bool { return gone[f.Seq] || len(f.cancels) > 0 && !match(f) })
}

func none(Fact) bool { return false }

// Outcome says what a plan should do.
type Outcome struct {
	Goals     map[Cell]Value
	Conflicts map[Cell]string
	cancels   map[Cell]map[int]bool
	already   map[Cell]map[int]bool // by cell: the facts to be undone, if the cell already has the wanted value
	chosen    map[int]bool
	touched   map[int]int     // by node: the last operation by which others changed it after the undone facts
	facts     []Fact          // the effective facts
	undone    func(Fact) bool // selects the facts to be undone, effective or not
}

func (o *Oracle) outcome(facts []Fact, undone func(Fact) bool) *Outcome {
	return &Outcome{map[Cell]Value{}, map[Cell]string{}, map[Cell]map[int]bool{}, map[Cell]map[int]bool{}, map[int]bool{}, map[int]int{}, facts, undone}
}

// Undo decides about the effective facts that match.
func (o *Oracle) Undo(match func(Fact) bool) *Outcome {
	out, now := o.outcome(o.effective(match), match), o.Cells(o.ops)
	chains := map[Cell][]Fact{}
	for _, f := range out.facts {
		chains[f.Cell] = append(chains[f.Cell], f)
		if match(f) {
			out.chosen[f.Seq] = true
		}
	}
	for _, c := range sorted(chains) {
		have, oldest, chain, first, others := now[c], 0, chains[c], 0, 0
		if c.Kind != EntryCell {
			first = 1 // undoing the creation of a file removes its names, but not its content
		}
		for _, f := range chain {
			if !out.chosen[f.Seq] {
				others = f.Op
			}
		}
		for i := len(chain) - 1; i >= first; i-- {
			if !out.chosen[chain[i].Seq] {
				continue
			}
			left, run, timeOnly := chain[i].Value, 0, true
			for ; i >= first && out.chosen[chain[i].Seq]; i-- {
				run, timeOnly = chain[i].Seq, timeOnly && chain[i].Value == chain[i].Before
			}
			was := Value{}
			if i >= 0 {
				was = chain[i].Value
			}
			if have == was && have != left {
				continue // others have already given the cell this value
			}
			if have != left && timeOnly {
				break // others have set the time since
			}
			if have != left {
				out.Conflicts[c] = "changed since"
				if c.Kind != EntryCell {
					out.touched[c.Node] = max(out.touched[c.Node], others)
				}
				break
			}
			have, oldest = was, run
		}
		if first == 1 && out.chosen[chain[0].Seq] && have != chain[0].Value {
			out.touched[c.Node] = max(out.touched[c.Node], others)
		}
		switch {
		case have != now[c]:
			out.Goals[c], out.cancels[c] = have, o.since(c, oldest)
		case oldest != 0:
			out.already[c] = o.since(c, oldest)
		}
	}
	o.touch(out)
	o.settle(out)
	return out
}

// touch notes the files that others have changed after a plan that is undone gave them a place, unless
// the goals undo the others' changes too.
func (o *Oracle) touch(out *Outcome) {
	for _, f := range o.Facts {
		if !out.chosen[f.Seq] || f.Plan == "" || f.Cell.Kind != EntryCell {
			continue
		}
		for _, g := range out.facts {
			lasts := g.Op > f.Op && !out.chosen[g.Seq] && !out.undoes(g)
			if lasts && g.Cell.Kind != EntryCell && g.Cell.Node == f.Value.Node && !o.asMade(out, g.Cell) {
				out.touched[g.Cell.Node] = max(out.touched[g.Cell.Node], g.Op)
			}
		}
	}
}

// undoes reports whether a fact is to be undone, or is one of others that the decision about its cell
// passed over because the cell is as the undone facts left it.
func (out *Outcome) undoes(f Fact) bool {
	return out.cancels[f.Cell][f.Seq] || out.already[f.Cell][f.Seq]
}

// asMade reports whether a file gets the mode with which the undone facts made it.
func (o *Oracle) asMade(out *Outcome, c Cell) bool {
	first := slices.IndexFunc(o.Facts, func(f Fact) bool { return f.Cell == c })
	return c.Kind == ModeCell && out.chosen[o.Facts[first].Seq] && o.After(out)[c] == o.Facts[first].Value
}

// since returns the facts about a cell from the fact seq on. A plan that gives the cell the value
// from before these facts cancels all of them.
func (o *Oracle) since(c Cell, seq int) map[int]bool {
	out := map[int]bool{}
	for _, f := range o.Facts {
		if f.Cell == c && f.Seq >= seq {
			out[f.Seq] = true
		}
	}
	return out
}

// UndoPlan decides about the facts of a plan. A cell must still have the value that the plan gave
// it.
func (o *Oracle) UndoPlan(plan string) *Outcome {
	match := func(f Fact) bool { return f.Plan == plan }
	gone, now, out := o.cancelled(none), o.Cells(o.ops), o.outcome(o.effective(match), match)
	for _, f := range o.Facts {
		out.chosen[f.Seq] = f.Plan == plan && !gone[f.Seq]
	}
	for _, f := range o.Facts {
		if !out.chosen[f.Seq] {
			continue
		}
		switch is := now[f.Cell]; {
		case is == f.Before || f.Value == f.Before: // in the second case only the time was changed
			out.already[f.Cell] = o.since(f.Cell, f.Seq)
			continue
		case is != f.Value:
			out.Conflicts[f.Cell] = "changed since"
			continue
		}
		out.Goals[f.Cell], out.cancels[f.Cell] = f.Before, o.since(f.Cell, f.Seq)
	}
	o.touch(out)
	o.settle(out)
	return out
}

// Restore decides how to restore the tree as of an operation.
func (o *Oracle) Restore(op int) *Outcome {
	out, now, then := o.outcome(o.effective(none), none), o.Cells(o.ops), o.Cells(op)
	alive := o.places(then)
	for _, f := range o.Facts {
		c := f.Cell
		if _, lived := alive[c.Node]; f.Op <= op || now[c] == then[c] || c.Kind != EntryCell && !lived {
			continue
		}
		if out.cancels[c] == nil {
			out.Goals[c], out.cancels[c] = then[c], map[int]bool{}
		}
		out.cancels[c][f.Seq] = true
	}
	o.settle(out)
	return out
}

// TimeOnly records that a plan restores only the modification time of a file, because the file's
// content already is the earlier one. The time is part of the content's value, but the oracle knows
// no times. So the plan says where it changes a time, and the facts count as undone. ino is the
// file's inode.
func (o *Oracle) TimeOnly(out *Outcome, ino uint64) {
	c := Cell{ContentCell, o.nodes[ino], ""}
	if cancels := out.already[c]; cancels != nil {
		out.Goals[c], out.cancels[c] = o.Cells(o.ops)[c], cancels
	}
}

// Carry records an outcome as a plan that was carried out on a tree. session is "" for a person.
func (o *Oracle) Carry(out *Outcome, plan string, session store.SessionID, t *Tree) {
	after := o.After(out)
	o.ops++
	for _, c := range sorted(out.Goals) {
		o.Facts = append(o.Facts, Fact{Seq: len(o.Facts) + 1, Op: o.ops, Cell: c, Value: out.Goals[c], Before: o.Cells(o.ops)[c], Session: session, Plan: plan, cancels: out.cancels[c]})
	}
	o.walk(after, func(p store.Path, _ Cell, n int) { o.nodes[t.Files[p].Ino] = n })
}

// After returns the cells after an outcome was carried out.
func (o *Oracle) After(out *Outcome) map[Cell]Value {
	after := o.Cells(o.ops)
	maps.Copy(after, out.Goals)
	return after
}
