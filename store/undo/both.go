package undo

import (
	"errors"
	"fmt"

	"cachebro/store"
	"cachebro/store/diff"
	"cachebro/store/leaf/text"
)

// Parted describes two versions of a file that were made from the same content, so that the second
// overwrote the first.
type Parted struct {
	Base   store.Hash
	Theirs uint64 // the overwritten version
	Ours   uint64 // the version made from Base
}

// Both plans to merge both changes of each file, by lines, and keeps later changes. If changes
// overlap, the file is in Conflicts.
func (p Planner) Both(of []Parted) (*Draft, error) {
	title := "the loss of another's change in " + text.Count(len(of), "file")
	return goals(p, store.PlanUndo, title, of, nil, func(m *maker, f Parted) (goal, bool, error) {
		g, ok, err := m.both(f)
		if len(of) == 1 {
			m.plan.Title = fmt.Sprintf("the loss of another's change in version %d of %s", f.Ours, g.path)
		}
		return g, ok, err
	})
}

// both returns the goal for one file. It returns false if there is nothing to do, or after listing
// a conflict or loss.
func (m *maker) both(f Parted) (g goal, ok bool, err error) {
	ours, err := m.view.Version(f.Ours)
	if err != nil {
		return g, false, err
	}
	g.path = ours.Path
	theirs, err := m.view.Version(f.Theirs)
	if err != nil {
		return g, false, err
	}
	base, okBase := m.contents.text(f.Base)
	lost, okLost := m.contents.text(theirs.Blob)
	left, okLeft := m.contents.text(ours.Blob)
	if !okBase || !okLost || !okLeft {
		m.lose(store.Conflict{Path: ours.Path, Why: "the contents are not stored, or are not text"})
		return g, false, nil
	}
	both, err := diff.Merge(base, lost, left)
	if err != nil {
		m.conflict(store.Conflict{Path: ours.Path, Why: "both changed " + notMerged(err, "the same lines") + "; version " + fmt.Sprint(theirs.Seq) + " has the other lines, changed", Actor: theirs.Actor, Time: theirs.Time})
		return g, false, nil
	}
	return m.since(ours, left, both)
}

// since returns the goal for a file in which want should replace was, the content of a version. It
// keeps later changes of the file.
func (m *maker) since(of store.Version, was, want []byte) (g goal, ok bool, err error) {
	g.path = of.Path
	cur, found, err := m.view.Current(of.Path)
	if err != nil {
		return g, false, err
	}
	have := stateOf(cur)
	if !found || !have.regular() {
		m.conflict(store.Conflict{Path: of.Path, Why: "it does not exist any more", Actor: cur.Actor, Time: cur.Time})
		return g, false, nil
	}
	now, okNow := m.contents.text(have.blob)
	out, err := diff.Merge(was, want, now)
	if !okNow || err != nil {
		m.conflict(store.Conflict{Path: of.Path, Why: "changed since, in " + notMerged(err, "the same lines"), Actor: cur.Actor, Time: cur.Time})
		return g, false, nil
	}
	if string(out) == string(now) {
		return g, false, nil // already done
	}
	g = goal{path: of.Path, want: m.contents.with(have, out), made: true}
	m.withoutNewRights(&g)
	return g, true, nil
}

// notMerged describes where two changes overlap.
func notMerged(err error, lines string) string {
	if errors.Is(err, diff.ErrEncodings) {
		return "its encoding"
	}
	return lines
}
