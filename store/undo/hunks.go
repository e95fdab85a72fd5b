package undo

import (
	"errors"
	"fmt"
	"slices"

	"cachebro/store"
	"cachebro/store/diff"
	"cachebro/store/leaf/text"
)

// FileEdits selects edits that led from one version of a file to another. They are numbered from 0
// in the Script that package diff finds between the two contents.
type FileEdits struct {
	Before, After uint64
	Which         []int
}

// ErrEdits means that requested edits do not exist or cannot be undone alone.
var ErrEdits = errors.New("no such edits")

// Edits plans to undo single edits and keeps later changes to the files. If lines overlap, the file
// is in Conflicts.
func (p Planner) Edits(of []FileEdits) (*Draft, error) {
	n, named := 0, map[store.Path]bool{}
	for i, f := range of {
		if slices.ContainsFunc(of[:i], func(o FileEdits) bool { return o.After == f.After }) {
			return nil, fmt.Errorf("version %d is given twice: %w", f.After, ErrEdits)
		}
		n += len(f.Which)
	}
	title := text.Count(n, "edit") + " of " + text.Count(len(of), "file")
	return goals(p, store.PlanUndo, title, of, nil, func(m *maker, f FileEdits) (goal, bool, error) {
		g, ok, err := m.withoutEdits(f)
		if ok && named[g.path] {
			err = fmt.Errorf("%q is given twice: %w", string(g.path), ErrEdits)
		}
		if ok {
			named[g.path] = true
		}
		if ok && len(of) == 1 {
			m.plan.Title = fmt.Sprintf("%s of %s in version %d", text.Count(n, "edit"), g.path, f.After)
		}
		return g, ok, err
	})
}

// withoutEdits returns the goal for one file. It returns false if there is nothing to do, or after
// listing a conflict or loss.
func (m *maker) withoutEdits(f FileEdits) (g goal, ok bool, err error) {
	before, err := m.view.Version(f.Before)
	if err != nil {
		return g, false, err
	}
	after, err := m.view.Version(f.After)
	if err != nil {
		return g, false, err
	}
	left, was := stateOf(after), stateOf(before)
	if !left.regular() || !was.regular() {
		return g, false, fmt.Errorf("version %d creates or removes the file, which can only be undone as a whole: %w", f.After, ErrEdits)
	}
	base, okBase := m.contents.text(left.blob)
	old, okOld := m.contents.text(was.blob)
	if !okBase || !okOld {
		m.lose(store.Conflict{Path: after.Path, Why: "the contents are not stored, or are not text"})
		return g, false, nil
	}
	without, all, err := withoutEdits(old, base, f.Which)
	if err != nil {
		return g, false, err
	}
	g, ok, err = m.since(after, base, without)
	g.took = f.After
	if !all {
		g.edits = f.Which
	}
	return g, ok, err
}

// withoutEdits returns the new text without some of the edits that made it. all means that no edit
// is left.
func withoutEdits(old, new []byte, which []int) (without []byte, all bool, err error) {
	sc := diff.Compare(old, new)
	which = slices.Compact(slices.Sorted(slices.Values(which)))
	if len(which) == 0 || which[0] < 0 || which[len(which)-1] >= len(sc.Edits) {
		return nil, false, fmt.Errorf("there are %s: %w", text.Count(len(sc.Edits), "edit"), ErrEdits)
	}
	var stay, out []int
	for _, i := range which {
		e := sc.Edits[i]
		for n := e.OldFrom; n < e.OldTo; n++ {
			stay = append(stay, n)
		}
		for n := e.NewFrom; n < e.NewTo; n++ {
			out = append(out, n)
		}
	}
	without, _ = sc.Without(stay, out)
	without, err = text.Like(new, without)
	return without, len(which) == len(sc.Edits), err
}

// LeftLines selects lines of one file that a plan must not change. Stay lists lines that must not
// be removed, and Out lists lines that must not be added. Lines are counted from 0 in the Script
// that package diff finds between the present file and the file after the whole plan.
type LeftLines struct {
	Path      store.Path
	Stay, Out []int
}

// leaveLines removes single lines of files from the aims.
func (m *maker) leaveLines(a *aims, left []LeftLines) error {
	for _, l := range left {
		var g *aim
		for _, o := range a.of {
			if p, ok := a.h.path(o.c); ok && p == l.Path && a.haveLines(o) {
				g = o
			}
		}
		if g == nil {
			return fmt.Errorf("%q can only be changed as a whole: %w", string(l.Path), ErrEdits)
		}
		have, okHave := m.contents.text(g.c.now().st.blob)
		want, okWant := m.contents.text(g.want.st.blob)
		if !okHave || !okWant || text.EncodingOf(have) != text.EncodingOf(want) {
			return fmt.Errorf("%q has no lines that can be left alone: %w", string(l.Path), ErrEdits)
		}
		part, ok := diff.Compare(have, want).Without(l.Stay, l.Out)
		if !ok {
			return fmt.Errorf("%q does not change these lines: %w", string(l.Path), ErrEdits)
		}
		part, err := text.Like(want, part)
		if err != nil {
			return err
		}
		st := m.contents.with(*g.want.st, part)
		g.want.st = &st
		g.made = true
		g.part = true
		g.back = 0
		g.from = 0
		if a.undo {
			g.took = g.c.newest(a.sel)
		}
		if g.c.same(g.want, g.c.now()) {
			delete(a.of, g.c)
		}
	}
	if len(left) > 0 {
		m.plan.Title += ", in part"
	}
	return nil
}

// haveLines reports whether an aim changes the content of a file that exists before and after the
// plan and has no other name.
func (a *aims) haveLines(g *aim) bool {
	n := g.c.of
	if g.c.kind != contentCell || n.nlink > 1 || len(n.entries) != 1 {
		return false
	}
	return g.c.now().st.regular() && g.want.st.regular() && a.after(n.entries[0]).node == n
}
