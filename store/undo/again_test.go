package undo

import (
	"errors"
	"maps"
	"testing"

	"cachebro/scripts/testkit/storetest"
	"cachebro/store"
)

// A redo left a file alone that somebody had changed. That person then gave the file the content that
// the redo would have given it, and the next redo never ended.
func TestRedoAfterItsConflictIsGone(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.Write("a", "1\n"), tr.Write("b", "1\n"))
	c.as("A", "sh", "t1", 10).do(tr.Write("a", "2\n"), tr.Write("b", "2\n"))
	c.carry(c.undo(Query{Select: store.Filter{Session: "A"}}))
	c.as("", "vim", "", 5).do(tr.Write("b", "3\n"))
	redo, err := Planner{Store: c.s}.Redo("", false, false)
	if err != nil || len(redo.Conflicts) != 1 {
		t.Fatal(err, redo)
	}
	c.carry(redo)
	c.want("a", "2\n")
	c.do(tr.Write("b", "2\n"))
	if d, err := (Planner{Store: c.s}).Redo("", false, false); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("%+v, %v", d, err)
	}
}

// A plan that had been redone was redone again, which undid what others had done since: a file that
// they had removed was there again.
func TestRedoOfWhatIsRedone(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.Write("b", "0\n"))
	c.as("A", "sh", "t1", 10).do(tr.Write("a", "1\n"), tr.Chmod("b", 0o700))
	undone := c.undo(Query{Select: store.Filter{Session: "A"}})
	c.carry(undone)
	redo := func(id string) *Draft {
		t.Helper()
		d, err := Planner{Store: c.s}.Redo(id, false, false)
		if err != nil {
			t.Fatal(err)
		}
		c.carry(d)
		return d
	}
	redone := redo(undone.ID)
	c.want("a", "1\n")
	c.as("B", "sh", "t2", 11).do(tr.Remove("a"), tr.Chmod("b", 0o644))
	if d := redo(undone.ID); len(d.Steps) > 0 {
		t.Errorf("redone again: %+v", d.Steps)
	}

	// It can be redone again once its redo is undone.
	c.do(tr.Write("a", "1\n"), tr.Chmod("b", 0o700))
	after := tr.Clone()
	redo(redone.ID)
	redo(undone.ID)
	if now := tr.Clone(); now["a"].Data != "1\n" || now["b"].Mode != after["b"].Mode {
		t.Errorf("after the redo:\n%swant\n%s", show(now), show(after))
	}
}

// A removed a file that others had written to, and made something else there, which others removed.
// An undo of A did not bring the file back, and named nothing.
func TestUndoBringsWhatOthersWroteUnderALaterFile(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("A", "sh", "t1", 10).do(tr.Write("b", "1\n"))
	c.as("B", "vim", "t2", 11).do(tr.Write("b", "2\n"))
	c.as("A", "sh", "t3", 10).do(tr.Write("b", "3\n"), tr.Remove("b"))
	c.as("A", "ln", "t4", 12).do(tr.Symlink("b", "x"))
	c.as("B", "rm", "t5", 11).do(tr.Remove("b"))
	p := c.undo(Query{Select: store.Filter{Session: "A"}})
	if len(p.Conflicts) != 1 || p.Conflicts[0].Path != "b" || p.Conflicts[0].Actor.Session != "B" {
		t.Errorf("named %+v", p.Conflicts)
	}
	c.carry(p)
	c.want("b", "2\n")
}

// A directory that A had made in place of a file stays, because others have changed its mode. That
// the file is not restored was not reported.
func TestUndoNamesDirectoryThatStays(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("B", "ln", "t1", 11).do(tr.Symlink("c", "x"))
	c.as("A", "sh", "t2", 10).do(tr.Write("a", "1\n"), tr.Remove("c"), tr.Mkdir("c", storetest.DirMode))
	c.as("B", "chmod", "t3", 11).do(tr.Chmod("c", 0o750))
	want := tr.Clone()
	delete(want, "a")
	p := c.undo(Query{Select: store.Filter{Session: "A"}})
	if len(p.Conflicts) != 1 || p.Conflicts[0].Path != "c" || p.Conflicts[0].Actor.Session != "B" {
		t.Errorf("named %+v", p.Conflicts)
	}
	c.carry(p)
	if now := tr.Clone(); !maps.Equal(now, want) {
		t.Errorf("after the undo:\n%swant\n%s", show(now), show(want))
	}
}

// A directory that stays because others have changed its mode is reported, even if nothing was to
// replace it.
func TestUndoNamesDirectoryOfChangedMode(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("A", "sh", "t1", 10).do(tr.Mkdir("b", storetest.DirMode))
	c.as("B", "chmod", "t2", 11).do(tr.Chmod("b", 0o750))
	p := c.undo(Query{Select: store.Filter{Session: "A"}})
	c.carry(p)
	if tr.Files["b"] == nil || len(p.Conflicts) != 1 || p.Conflicts[0].Path != "b" || p.Conflicts[0].Actor.Session != "B" {
		t.Errorf("b is %+v; named %+v", tr.Files["b"], p.Conflicts)
	}
}

// What a redo restored counts as made by whoever made it first, whatever was made and removed at
// its name in between.
func TestUndoOfWhatARedoBroughtBack(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("A", "sh", "t1", 10).do(tr.Write("a", "3\n"))
	undone := c.undo(Query{Select: store.Filter{Session: "A"}})
	c.carry(undone)
	c.as("B", "sh", "t2", 11).do(tr.Write("a", "7\n"), tr.Remove("a"))
	d, err := Planner{Store: c.s}.Redo(undone.ID, false, false)
	if err != nil {
		t.Fatal(err)
	}
	c.carry(d)
	c.want("a", "3\n")
	p := c.undo(Query{Select: store.Filter{Session: "A"}})
	if len(p.Conflicts) > 0 {
		t.Errorf("named %+v", p.Conflicts)
	}
	c.carry(p)
	if now := tr.Clone(); len(now) > 0 {
		t.Errorf("left:\n%s", show(now))
	}
}

// An earlier undo had removed something, and something else was made in its place. An undo of that
// also counted as an undo of the earlier undo, which could then not be redone.
func TestRedoOfAnUndoBelowAnother(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("A", "sh", "t1", 10).do(tr.Write("a", "1\n"))
	undone := c.undo(Query{Select: store.Filter{Session: "A"}})
	c.carry(undone)
	c.as("A", "sh", "t2", 11).do(tr.Write("a", "2\n"))
	c.carry(c.undo(Query{Select: store.Filter{Session: "A"}}))
	d, err := Planner{Store: c.s}.Redo(undone.ID, false, false)
	if err != nil {
		t.Fatal(err)
	}
	c.carry(d)
	c.want("a", "1\n")
}

// A wrote a new file twice and gave it the name of B's file, which already had that content. The save
// changed nothing, but B's write then counted as A's too, so an undo of A took it back.
func TestUndoOfSaveWithTheSameContent(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("B", "vim", "t1", 11).do(tr.Write("b", "1\n"))
	c.as("A", "sh", "t2", 10).do(tr.Write("a", "1\n"))
	c.as("B", "vim", "t3", 11).do(tr.Write("b", "2\n"))
	c.as("A", "vim", "t4", 12).do(tr.Write("b.tmp", "3\n"), tr.Write("b.tmp", "2\n"), tr.Rename("b.tmp", "b"))
	c.carry(c.undo(Query{Select: store.Filter{Session: "A"}}))
	c.want("b", "2\n")
}

// A file had a second name for a while, and a redo made it again under that name only. An undo that
// selects its change under the first name did not find it there, and did not name what others had
// changed in it since.
func TestUndoOfWhatARedoMadeUnderAnotherName(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("B", "vim", "t1", 11).do(tr.Write("a", "1\n"))
	c.as("A", "sh", "t2", 10).do(tr.Write("a", "2\n"))
	c.as("A", "sh", "t3", 12).do(tr.Write("a", "3\n"), tr.Link("a", "b"))
	undone := c.undo(Query{Select: store.Filter{Session: "A"}})
	c.carry(undone)
	c.as("A", "rm", "t4", 13).do(tr.Remove("a"))
	d, err := Planner{Store: c.s}.Redo(undone.ID, false, false)
	if err != nil {
		t.Fatal(err)
	}
	c.carry(d)
	c.want("b", "3\n")
	c.as("B", "vim", "t5", 14).do(tr.Write("b", "4\n"))
	p := c.undo(Query{Select: store.Filter{ToolCall: "t2"}})
	if len(p.Conflicts) != 1 || p.Conflicts[0].Path != "b" || p.Conflicts[0].Actor.Session != "B" || len(p.Steps) > 0 {
		t.Errorf("named %+v, steps %+v", p.Conflicts, p.Steps)
	}
}

// A file that a plan had exchanged for a new one, as it does where nothing is mounted, got the name of
// a removed file before. Since an exchange was taken for a move, what the plan had written was taken
// for unrecorded, and the next plan expected the content of the removed file.
func TestRestoreAfterAPlanExchangedTheFile(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	tr.Bare = true
	restore := func(seq uint64) {
		t.Helper()
		p, err := Planner{Store: c.s}.Restore(nil, seq)
		if err != nil {
			t.Fatal(err)
		}
		c.carry(p)
	}
	c.as("A", "sh", "t1", 1).do(tr.Write("b", "0\n"), tr.Remove("b"), tr.Write("a", "1\n"), tr.Remove("a"), tr.Write("a", "2\n"))
	seq := c.s.Seq()
	c.do(tr.Write("a", "3\n"), tr.Rename("a", "b"))
	restore(seq)
	c.want("a", "2\n")
	restore(0)
	if now := tr.Clone(); len(now) > 0 {
		t.Errorf("left:\n%s", show(now))
	}
}

// A made a file and changed its mode, and B changed the mode back. An undo of A kept the file for B's
// change, which it undid as well, so a second undo of A removed the file. It is as A made it, so the
// first undo removes it.
func TestUndoOfAFileThatOthersChangedBack(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("A", "sh", "t1", 10).do(tr.Write("a", "1\n"), tr.Chmod("a", 0o700))
	c.as("B", "chmod", "t2", 11).do(tr.Chmod("a", 0o644))
	c.as("A", "chmod", "t3", 10).do(tr.Chmod("a", 0o755))
	c.carry(c.undo(Query{Select: store.Filter{Session: "A"}}))
	if now := tr.Clone(); len(now) > 0 {
		t.Errorf("left:\n%s", show(now))
	}
	if again := c.undo(Query{Select: store.Filter{Session: "A"}}); len(again.Steps) > 0 {
		t.Errorf("undone again: %+v", again.Steps)
	}
}

// A had removed B's file and given it back, where nothing is mounted. Its undo named the times that its
// plans had set before B's later changes as a conflict, took the file for A's, removed its directory
// and kept a hard link of A instead.
func TestUndoOfTheOwnPlansOnAnothersFile(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	tr.Bare = true
	c.as("A", "sh", "t1", 10).do(tr.Mkdir("b", storetest.DirMode))
	seq := c.s.Seq()
	c.as("B", "vim", "t2", 11).do(tr.Write("b/a", "1\n"))
	p, err := Planner{Store: c.s}.Restore(nil, seq)
	if err != nil {
		t.Fatal(err)
	}
	c.carryAs(p, "A")
	c.carryAs(c.undo(Query{Select: store.Filter{Session: "A"}}), "A")
	c.want("b/a", "1\n")
	c.as("B", "vim", "t3", 11).do(tr.Write("b/a", "2\n"))
	c.as("A", "sh", "t4", 10).do(tr.Write("b/a", "3\n"), tr.Link("b/a", "b/b"))
	p = c.undo(Query{Select: store.Filter{Session: "A"}})
	if len(p.Conflicts) > 0 {
		t.Errorf("named %+v", p.Conflicts)
	}
	c.carry(p)
	c.want("b/a", "2\n")
	if tr.Files["b/b"] != nil {
		t.Error("the link stays")
	}
}

// A plan had renamed a directory aside while two places were exchanged, and all other places of the
// directory were taken since. An undo of that plan made the directory again under the temporary name.
func TestNoDirectoryUnderATemporaryName(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	restore := func(seq uint64) *Draft {
		t.Helper()
		p, err := Planner{Store: c.s}.Restore(nil, seq)
		if err != nil {
			t.Fatal(err)
		}
		c.carry(p)
		return p
	}
	c.as("A", "sh", "t1", 10).do(tr.Write("c", "1\n"))
	one := c.s.Seq()
	c.do(tr.Mkdir("b", storetest.DirMode), tr.Write("c", "3\n"))
	c.as("B", "sh", "t2", 11).do(tr.Exchange("c", "b"))
	four := c.s.Seq()
	c.do(tr.Mkdir("c/b", storetest.DirMode), tr.Write("a", "6\n"))
	first := restore(four)
	c.as("A", "sh", "t3", 12).do(tr.Write("c/a", "7\n"))
	c.as("B", "sh", "t4", 11).do(tr.Rename("b", "c/a"), tr.Write("a", "11\n"))
	restore(one)
	c.as("A", "sh", "t5", 13).do(tr.Mkdir("b", storetest.DirMode), tr.Write("c", "17\n"), tr.Write("a", "18\n"))
	d, err := Planner{Store: c.s}.Redo(first.ID, false, false)
	if err != nil {
		t.Fatal(err)
	}
	c.carry(d)
	for p := range tr.Files {
		if store.OwnFile(p) {
			t.Errorf("%q was made", p)
		}
	}
	if len(d.Conflicts) != 1 || d.Conflicts[0].Path != "c/b" {
		t.Errorf("named %+v", d.Conflicts)
	}
}
