package undo

import (
	"cachebro/store"
	"cachebro/store/content"
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
	store *store.Store
	view  *store.View // of the newest version when it began
	plan  *Draft
	show  bool // nobody is asked to secure anything

	lost     []lost
	same     []goal // of paths that are as they should be
	brought  []brought
	asked    func(store.Path) bool                  // the query asks for a path; nil: for all
	other    map[store.Inode]store.Version          // the first change of each file that it means but for its paths
	beside   map[uint64]bool                        // renames of directories that it means but for their paths
	unsafe   map[store.Path]string                  // what could not be secured, and why
	kept     map[store.Hash]place                   // whether and where the store has contents, as far as it was asked
	homes    map[store.Path]store.Path              // what goes by a rename, and where
	plans    []store.Plan                           // all heads, the newest first, once they were asked for
	returned map[string]map[store.Path]store.Return // what plans brought back, as far as it was asked
	named    fileNames                              // of files, as far as they were asked for
	wentTo   map[store.Path][]laterName             // which names directories of a moment had later, as far as it was asked
}

// fileNames are the names of files in one view.
type fileNames struct {
	view *store.View
	of   map[store.Inode][]store.Path
}

// place is where a content lies, if the store has it.
type place struct {
	content.Place
	kept bool
}

// make makes a draft: it finds goals, has what they would destroy secured, drops
// goals that cannot be reached, and turns the others into steps. apart: a file may
// change under one name alone.
func (p Planner) make(kind string, find func(*maker) (goals []goal, apart bool, err error)) (*Draft, error) {
	m := &maker{
		store: p.Store, plan: &Draft{Plan: store.Plan{Kind: kind}, Made: map[store.Hash][]byte{}, Read: map[store.Hash][]byte{}, ByLine: map[store.Path]bool{}},
		show: p.Secure == nil,
		kept: map[store.Hash]place{}, returned: map[string]map[store.Path]store.Return{},
	}
	var goals []goal
	var apart bool
	var atRisk []risk
	err := p.Store.View(func(v *store.View) (err error) {
		m.view, m.plan.Seq = v, v.Seq()
		goals, apart, err = find(m)
		if err != nil {
			return err
		}
		goals, err = m.without(goals, p.Leave)
		if err != nil {
			return err
		}
		m.askFor(goals)
		atRisk, err = m.risks(goals)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(atRisk) > 0 {
		m.unsafe = p.Secure(versionsOf(atRisk))
	}
	// Another view: the store was written to, and no view may be open then.
	err = p.Store.ViewUpTo(m.plan.Seq, func(v *store.View) (err error) {
		m.view = v
		if err := m.secured(atRisk); err != nil {
			return err
		}
		goals, err = m.possible(goals, apart)
		if err != nil {
			return err
		}
		for i := range goals {
			m.plan.ByLine[goals[i].path] = goals[i].haveLines()
		}
		return m.steps(goals)
	})
	if err != nil {
		return nil, err
	}
	m.gatherLost()
	return m.plan, nil
}

func (m *maker) conflict(c store.Conflict) { m.plan.Conflicts = append(m.plan.Conflicts, c) }

func (m *maker) lose(c store.Conflict) { m.lost = append(m.lost, lost{Conflict: c}) }
