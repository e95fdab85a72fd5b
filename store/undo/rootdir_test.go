package undo

import (
	"errors"
	"maps"
	"testing"

	"cachebro/scripts/testkit/storetest"
	"cachebro/store"

	"golang.org/x/sys/unix"
)

// withRoot gives the tree a root directory and returns the version that a mount records before the
// first change of its mode.
func withRoot(c *scene) store.Change {
	c.tr.Files[""] = &storetest.File{Ino: 1, Mode: storetest.DirMode}
	return c.tr.Change(store.OpBaseline, "", "", c.tr.Files[""])
}

// The mode of the project's root used never to be restored, and no plan reported that.
func TestModeOfRoot(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.Write("a", "a\n"), tr.Mkdir("d", storetest.DirMode), tr.Write("d/b", "b\n"), withRoot(c))
	before, seq := tr.Clone(), c.s.Seq()
	c.as("A", "chmod", "t1", 10).do(tr.Chmod("d/b", 0o600), tr.Chmod("d", 0o700), tr.Chmod("a", 0o600), tr.Chmod("", 0o700))
	after := tr.Clone()
	is := func(what string, want map[store.Path]storetest.File) {
		t.Helper()
		if now := tr.Clone(); !maps.Equal(now, want) {
			t.Fatalf("%s:\n%swant\n%s", what, show(now), show(want))
		}
	}
	carry := func(d *Draft, err error) {
		t.Helper()
		if err != nil || len(d.Conflicts)+len(d.Lost) > 0 {
			t.Fatal(err, d.Conflicts, d.Lost)
		}
		c.carry(d)
	}
	planner := Planner{Store: c.s}
	for range 2 {
		carry(c.undo(Query{Last: true}), nil)
		is("undo", before)
		carry(planner.Redo("", false, false))
		is("redo", after)
		carry(planner.Restore(nil, seq))
		is("restore", before)
		carry(planner.Redo("", false, false))
		is("redo of the restore", after)
	}
	carry(c.undo(Query{Select: store.Filter{Session: "A"}, In: Names{Paths: []store.Path{"d"}}}), nil)
	if root := tr.Files[""].Mode & 0o7777; root != 0o700 {
		t.Errorf("an undo of one directory gave the root the mode %o", root)
	}
}

// An ordinary user can change nothing in a root that is not writable. So a plan first makes the
// root writable, and last sets its former mode if that was not writable.
func TestRootIsOpenWhileAPlanWorksInIt(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.Write("a", "a\n"), withRoot(c), tr.Chmod("", 0o555))
	c.as("A", "sh", "t1", 10).do(tr.Chmod("", 0o755), tr.Remove("a"), tr.Chmod("", 0o500))
	p := c.undo(Query{Select: store.Filter{Session: "A"}})
	if len(p.Conflicts)+len(p.Lost) > 0 || len(p.Steps) != 3 {
		t.Fatalf("%+v, conflicts %+v, lost %+v", p.Steps, p.Conflicts, p.Lost)
	}
	first, last := p.Steps[0], p.Steps[2]
	ofRoot := func(s store.Step) bool { return s.Do == store.DoChmod && s.Path == "" }
	if !ofRoot(first) || !ofRoot(last) || first.Mode&0o700 != 0o700 {
		t.Errorf("%+v", p.Steps)
	}
	c.carry(p)
	if root := tr.Files[""].Mode; root != unix.S_IFDIR|0o555 || tr.Files["a"] == nil {
		t.Errorf("the root has mode %o, a is %+v", root, tr.Files["a"])
	}
}

// If the root's former mode is unknown, an undo lists the root as lost. A second undo undoes the
// action before.
func TestUnknownModeOfRoot(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	withRoot(c)
	c.as("", "vim", "", 5).do(tr.Write("a", "a\n"))
	c.as("A", "chmod", "t1", 10).do(tr.Chmod("", 0o700))
	p := c.undo(Query{Last: true})
	if len(p.Steps) > 0 || len(p.Lost) != 1 || p.Lost[0].Path != "" {
		t.Fatalf("%+v, lost %+v", p.Steps, p.Lost)
	}
	c.carry(p)
	if p := c.undo(Query{Last: true}); len(p.Steps) != 1 || p.Steps[0].Path != "a" {
		t.Errorf("the second undo: %+v, lost %+v", p.Steps, p.Lost)
	}
}

// After the undo of an action with a loss, each further undo used to report the same loss again and
// did nothing else.
func TestUndoPassesOverWhatIsLost(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.Write("first", "1\n"), tr.Write("f", "f\n"))
	c.as("", "truncate", "t2", 11)
	big := tr.Write("big", "b")
	big.HasContent, big.Content, big.NoContent, big.Stat.Size = false, nil, "too large", 40<<20
	c.do(big)
	c.as("A", "sh", "t1", 10).do(tr.Write("first", "2\n"))
	c.as("A", "rm", "t3", 12)
	gone := tr.Remove("big")
	gone.Stat.Size = 40 << 20
	c.do(gone, tr.Remove("f"))
	p := c.undo(Query{Last: true})
	if len(p.Lost) != 1 || p.Lost[0].Path != "big" || len(p.Steps) != 1 {
		t.Fatalf("%+v, lost %+v", p.Steps, p.Lost)
	}
	refused := *p
	if err := errors.Join(c.s.Journal.Begin(t.Context(), &refused.Plan, nil), c.s.Journal.Finish(refused.ID, nil)); err != nil {
		t.Fatal(err)
	}
	c.carry(p)
	c.want("f", "f\n")
	p = c.undo(Query{Last: true, Select: store.Filter{Session: "A"}})
	if len(p.Lost) > 0 || len(p.Steps) != 1 {
		t.Fatalf("the second undo: %+v, lost %+v", p.Steps, p.Lost)
	}
	c.carry(p)
	c.want("first", "1\n")
	for _, what := range []string{"the undo of the second undo", "the undo of the removal"} {
		d, err := Planner{Store: c.s}.Redo("", false, false)
		if err != nil || len(d.Steps) != 1 {
			t.Fatal(what, err, d)
		}
		c.carry(d)
	}
	if p := c.undo(Query{Last: true}); len(p.Lost) != 1 || len(p.Steps) != 1 || p.Steps[0].Path != "f" {
		t.Errorf("after the redo: %+v, lost %+v", p.Steps, p.Lost)
	}
}
