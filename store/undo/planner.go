package undo

import (
	"cachebro/store"
)

// Planner makes plans from the history of a store.
type Planner struct {
	Store *store.Store
	// Secure brings contents into the store that a plan would destroy; nil: plans are
	// only to be shown, and what can be secured will be.
	Secure Secure
	// Leave are lines of files that a plan leaves as they are, though it would change them.
	Leave []LeftLines
}

// Secure is called while a plan is made, to bring the present contents of files into
// the store (see Store.Fill): the plan would delete or overwrite them, and the store
// lacks them. The plan leaves alone what Secure leaves out; Secure says why.
type Secure func([]store.Version) map[store.Path]string

// Draft is a plan that was not begun (see store.Journal).
type Draft struct {
	store.Plan
	// Made are the contents that its steps write and that no version has had.
	Made map[store.Hash][]byte
	// Read are some of the contents that its steps write, as far as they were read
	// to count their lines: who carries the plan out need not read them again.
	Read map[store.Hash][]byte
	// ByLine are the files of which single lines can be left, see Planner.Leave.
	ByLine map[store.Path]bool
	// Partly: the lines of the later steps were not counted.
	Partly bool
	// Newest is, of an undo of the last action, its newest version.
	Newest store.Version
}

// maker makes one draft.
type maker struct {
	store    *store.Store
	view     *store.View // of the newest version when it began
	plan     *Draft
	contents contents
	show     bool // nobody is asked to secure anything

	lost   []lost
	asked  func(store.Path) bool // the query asks for a path; nil: for all
	before []store.Version       // what a query without its paths selects
	unsafe map[store.Path]string // what could not be secured, and why
}

func newMaker(p Planner, kind string) *maker {
	d := &Draft{Plan: store.Plan{Kind: kind}, Made: map[store.Hash][]byte{}, Read: map[store.Hash][]byte{}, ByLine: map[store.Path]bool{}}
	return &maker{
		store: p.Store, plan: d, show: p.Secure == nil,
		contents: contents{store: p.Store, made: d.Made, kept: map[store.Hash]place{}},
	}
}

// make makes a draft: it finds out what is to be reached, has what that would destroy
// secured, drops what cannot be reached, and turns the rest into steps.
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
		m.askFor(a)
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
		// Another view: the store was written to, and no view may be open then.
		err = p.Store.ViewUpTo(m.plan.Seq, func(v *store.View) (err error) {
			m.view = v
			if err := m.secured(atRisk); err != nil {
				return err
			}
			o, err := m.reachable(a)
			if err != nil {
				return err
			}
			m.nameStrangers(a, o)
			m.nameDeparted(a, o)
			m.findLost(a, o)
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
	m.gatherLost()
	return m.plan, nil
}

func (m *maker) conflict(c store.Conflict) { m.plan.Conflicts = append(m.plan.Conflicts, c) }

func (m *maker) lose(c store.Conflict) { m.lost = append(m.lost, lost{Conflict: c}) }
