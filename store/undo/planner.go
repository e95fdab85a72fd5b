package undo

import (
	"cachebro/store"
)

// Planner makes plans from the history of a store.
type Planner struct {
	Store *store.Store
	// Secure stores contents that a plan would destroy. If it is nil, the plan is only shown, and
	// is made as if all of them could be stored.
	Secure Secure
	// Leave lists lines that a plan must not change.
	Leave []LeftLines
	// Whole returns why a directory that the plan would remove must stay with everything in it, or
	// "". If Whole is nil, no directory must stay.
	Whole func(dir store.Path) string
}

// Secure stores the present contents of files that the plan would delete or overwrite and that the
// store lacks (see Store.Fill). It returns the paths that it could not store, with the reason. The
// plan leaves these files alone.
type Secure func([]store.Version) map[store.Path]string

// Draft is a plan that has not begun (see store.Journal).
type Draft struct {
	store.Plan
	// Made holds the contents that the steps write and that no version has.
	Made map[store.Hash][]byte
	// Read holds contents that the steps write and that were already read to count their lines.
	Read map[store.Hash][]byte
	// ByLine holds the files whose lines can be left alone one by one, see Planner.Leave.
	ByLine map[store.Path]bool
	// Partly means that the lines of later steps were not counted.
	Partly bool
	// Newest is the newest version of the undone action, for an undo of the last action.
	Newest store.Version

	inUse int // number of Conflicts that are directories which stay only because of other files in them
}

type maker struct {
	store    *store.Store
	view     *store.View // the history up to the newest version at the beginning
	plan     *Draft
	contents contents
	show     bool // the plan is only shown, so nothing is secured

	conflicts []problem
	lost      []problem
	requested func(store.Path) bool // selects the requested paths; nil: all
	before    []*store.Version      // the selected versions at all paths
	unsafe    map[store.Path]string // paths that could not be secured, with the reason
	wanted    map[store.Hash]int64  // see Planner.Wanted
}

func newMaker(p Planner, kind string) *maker {
	d := &Draft{Plan: store.Plan{Kind: kind}, Made: map[store.Hash][]byte{}, Read: map[store.Hash][]byte{}, ByLine: map[store.Path]bool{}}
	return &maker{
		store: p.Store, plan: d, show: p.Secure == nil,
		contents: contents{store: p.Store, made: d.Made, held: map[store.Hash]bool{}, kept: map[store.Hash]place{}},
	}
}

// make makes a draft. It calls find for the aims, secures the contents that they would destroy,
// drops impossible aims, and turns the rest into steps.
func (p Planner) make(kind string, find func(*maker) (*aims, error)) (*Draft, error) {
	m := newMaker(p, kind)
	var a *aims
	var atRisk []risk
	err := p.Store.View(func(v *store.View) (err error) {
		m.view, m.plan.Seq = v, v.Seq()
		a, err = find(m)
		if err != nil || a == nil {
			return err
		}
		err = m.leaveLines(a, p.Leave)
		if err != nil {
			return err
		}
		m.lookUpContents(a)
		atRisk, err = m.risks(a)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(atRisk) > 0 {
		m.unsafe = p.Secure(versionsOf(atRisk))
	}
	if a != nil {
		// No view may be open while the store is written to, so open a new one now.
		err = p.Store.ViewUpTo(m.plan.Seq, func(v *store.View) (err error) {
			m.view = v
			if err := m.secured(atRisk); err != nil {
				return err
			}
			m.leaveWhole(a, p.Whole)
			o, err := m.reachable(a)
			if err != nil {
				return err
			}
			m.nameStrangers(a, o)
			m.nameDeparted(a, o)
			m.nameCells(a, o)
			for _, g := range a.of {
				if p, ok := a.h.path(g.c); ok && a.haveLines(g) {
					m.plan.ByLine[p] = true
				}
			}
			return m.steps(a, o)
		})
	}
	if err != nil {
		return nil, err
	}
	listed := map[[2]string]bool{}
	for _, x := range m.conflicts {
		named := [2]string{string(x.Path), x.Why}
		if !listed[named] { // two cells of a file may have the same conflict
			m.plan.Conflicts = append(m.plan.Conflicts, x.Conflict)
			if x.inUse {
				m.plan.inUse++
			}
		}
		listed[named] = true
	}
	m.gatherLost()
	return m.plan, nil
}
