package undo

import "cachebro/store"

// restoredNode returns the node that a plan restored at an entry, or nil if unknown.
func (h *past) restoredNode(v *store.Version, c *cell) *node {
	if r, ok := h.planCell(v.Plan, c); ok {
		if r.Made {
			return h.nodeAt(r.Back).latest()
		}
		if i, known := h.plannedFact(r, c, len(c.facts)); known {
			return c.before(i + 1).node
		}
		return h.nodeAt(r.Back)
	}
	if cur := c.now().node; cur != nil {
		_, content := h.planCell(v.Plan, &cur.content)
		_, meta := h.planCell(v.Plan, &cur.meta)
		if content || meta {
			return cur
		}
	}
	// The plan gave the node an entry that it never held before, and may have had no version.
	return h.nodeAt(h.plans[v.Plan].nodes[v.Path]).latest()
}

// plannedCells holds what a plan records about cells.
type plannedCells struct {
	cells map[*cell]store.Cell
	nodes map[store.Path]uint64 // by the path of an entry that is not in cells: a version of the node that it got
}

// planCell returns what a plan records about a cell, or false if nothing.
func (h *past) planCell(plan string, c *cell) (store.Cell, bool) {
	planned, asked := h.plans[plan]
	if !asked {
		if p, err := h.m.store.Journal.Plan(plan); err == nil && p.Since > 0 {
			planned = plannedCells{map[*cell]store.Cell{}, map[store.Path]uint64{}}
			recorded := map[uint64]bool{} // by the version that an entry had
			for _, r := range p.Cells {
				if of := h.cellOf(r.Kind, r.Was); of != nil {
					planned.cells[of] = r
				}
				recorded[r.Was] = recorded[r.Was] || r.Kind == entryCell
			}
			for _, r := range p.Returns {
				if r.Kind == entryCell && !recorded[r.Was] {
					planned.nodes[r.Path] = r.Back
				}
			}
		}
		h.plans[plan] = planned
	}
	r, ok := planned.cells[c]
	return r, ok
}

// recordsCells reports whether a plan records its effect on each cell. Plans of older programs do
// not.
func (h *past) recordsCells(plan string) bool {
	h.planCell(plan, nil)
	return h.plans[plan].cells != nil
}

// plannedFact looks, among the facts of a cell before fact i, for the one that set the value which
// a plan restored. It returns its index; -1 is the base. It returns false if that fact is older
// than everything read, or if the value was merged.
func (h *past) plannedFact(r store.Cell, c *cell, i int) (int, bool) {
	older := r.From < h.lo
	if r.From == 0 {
		older = r.Back < c.seq(0)
	}
	if r.Made || older {
		return 0, false
	}
	from := r.From
	if from == 0 {
		from = r.Back + 1
	}
	for i--; i >= 0 && c.facts[i].seqs[0] >= from; i-- {
	}
	return i, true
}

// cellOf returns the cell of a kind that a version changes, or nil if unknown.
func (h *past) cellOf(kind uint8, seq uint64) *cell {
	if kind == entryCell {
		return h.entryOf[seq]
	}
	n := h.nodeAt(seq)
	if n == nil {
		return nil
	}
	n = n.latest()
	if kind == contentCell {
		return &n.content
	}
	return &n.meta
}

// nodeAt returns the node of a version.
func (h *past) nodeAt(seq uint64) *node {
	if n := h.bySeq[seq]; n != nil {
		return n
	}
	v, err := h.m.view.Version(seq)
	if err != nil || v.Deleted() {
		return nil
	}
	if v.Path == "" {
		return h.root
	}
	if n := h.nodes[store.InodeOf(v.Stat)]; n != nil || v.Stat.Ino == 0 {
		return n
	}
	st := stateOf(v)
	n := h.newNode(st.kind(), store.InodeOf(v.Stat)) // it was removed before lo
	n.seen = true
	n.beginAs(st)
	h.nodes[n.in] = n
	return n
}
