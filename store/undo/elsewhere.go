package undo

import (
	"cmp"
	"maps"
	"slices"

	"cachebro/store"
)

// Side is the state of a path in another machine's history.
type Side struct {
	Mode    uint32 // st_mode; 0: absent
	Content []byte // content of a regular file
	Target  string // target of a symlink
}

// Elsewhere is a change of a path by another machine.
type Elsewhere struct {
	Path store.Path
	Was  Side   // state after the change
	Want Side   // state before the change
	Lost string // why the states are unknown; "": they are known
}

// Elsewhere plans to undo here what another machine changed there. A path is changed only if it is
// as that machine left it. Otherwise it is in Conflicts, unless merge is set and the changes can be
// merged, or force is set. A file keeps its owner and gets no set-id bits.
func (p Planner) Elsewhere(title string, of []Elsewhere, merge, force bool) (*Draft, error) {
	return goals(p, store.PlanUndo, title, of, nil, func(m *maker, f Elsewhere) (goal, bool, error) { return m.elsewhere(f, merge, force) })
}

// elsewhere returns the goal for one path. It returns false if there is nothing to do, or after
// listing a conflict or loss.
func (m *maker) elsewhere(f Elsewhere, merge, force bool) (g goal, ok bool, err error) {
	if f.Lost != "" {
		m.lose(store.Conflict{Path: f.Path, Why: f.Lost})
		return g, false, nil
	}
	cur, _, err := m.view.Current(f.Path)
	if err != nil {
		return g, false, err
	}
	have, was, want := stateOf(cur), m.contents.stateAt(f.Was), m.contents.stateAt(f.Want)
	chmod := was.perm() != want.perm() // otherwise the modes may differ only by the users' umasks
	if !chmod && !have.absent() && !want.absent() && have.kind() == want.kind() {
		want.mode = have.mode
	}
	g = goal{path: f.Path, have: have, want: want, made: !want.absent()}
	switch {
	case have.equal(want):
		return g, false, nil
	case !have.absent() && have.sameContent(was), have.absent() && was.absent(), force:
	default:
		if merged, clean := m.contents.merge(was, want, have); merge && clean {
			g.want = merged
			break
		}
		why := "it is not what that machine left"
		if have.absent() {
			why = "it is not here"
		}
		m.conflict(store.Conflict{Path: f.Path, Why: why, Actor: cur.Actor, Time: cur.Time})
		return g, false, nil
	}
	m.withoutNewRights(&g)
	return g, true, nil
}

// Taken returns the changes that a query selects in this history, to undo them on another machine.
func (p Planner) Taken(q Query) (title string, of []Elsewhere, err error) {
	_, err = p.make(store.PlanUndo, func(m *maker) (_ *aims, err error) {
		var sel selection
		sel, title, err = m.selected(q, map[uint64]bool{})
		if err != nil {
			return nil, err
		}
		paths := sel.paths()
		h, err := m.cellsSince(paths, sel.oldest(), sel)
		if err != nil {
			return nil, err
		}
		seqs := map[store.Path][]uint64{}
		for _, seq := range slices.Sorted(maps.Keys(sel)) {
			seqs[sel[seq].Path] = append(seqs[sel[seq].Path], seq)
		}
		for _, path := range paths {
			own := seqs[path]
			if e, ok := m.taken(h, path, own[0], own[len(own)-1]); ok {
				of = append(of, e)
			}
		}
		return nil, nil
	})
	return title, of, err
}

// taken returns how a path changed from one version to another, or false if it did not.
func (m *maker) taken(h *past, path store.Path, first, last uint64) (e Elsewhere, ok bool) {
	was, _ := h.stateThen(path, last)
	want, known := h.stateThen(path, first-1)
	e.Path = path
	if !known {
		e.Lost = "what was there before is not known"
	}
	if store.OwnFile(path) || known && was.equal(want) {
		return e, false
	}
	for _, s := range []struct {
		of state
		to *Side
	}{{was, &e.Was}, {want, &e.Want}} {
		*s.to = Side{Mode: s.of.mode, Target: s.of.target}
		if !s.of.regular() || s.of.size == 0 && s.of.blob == (store.Hash{}) {
			continue
		}
		var err error
		s.to.Content, err = m.store.Content(s.of.blob)
		if err != nil && known {
			e.Lost = cmp.Or(s.of.noContent, "the content is not kept")
		}
	}
	if e.Lost != "" {
		e.Was, e.Want = Side{}, Side{}
	}
	return e, true
}
