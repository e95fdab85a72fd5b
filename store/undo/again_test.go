package undo

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"cachebro/scripts/testkit/storetest"
	"cachebro/store"
)

// A redo left a file alone because somebody had changed it. That person then gave the file exactly
// the content that the redo would have given it. After that, the next redo used to run forever.
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

// A plan that had been redone could be redone a second time. The second redo undid changes that
// others had made since, and brought back a file that they had removed.
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

	// The plan can be redone again once its redo is undone.
	c.do(tr.Write("a", "1\n"), tr.Chmod("b", 0o700))
	after := tr.Clone()
	redo(redone.ID)
	redo(undone.ID)
	if now := tr.Clone(); now["a"].Data != "1\n" || now["b"].Mode != after["b"].Mode {
		t.Errorf("after the redo:\n%swant\n%s", show(now), show(after))
	}
}

// Session A removed a file that B had written to, and made a link in its place. B then removed the
// link. An undo of A's changes used to neither restore the file nor report a conflict.
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

// A replaced a link by a directory, and B changed the directory's mode. An undo of A's changes
// keeps the directory. It used not to report that the link could not be restored.
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

// An undo keeps a directory that A made if others have changed its mode, and reports that as a
// conflict.
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

// A file that a redo restored counts as made by its first author, even if another file was made and
// removed under its name in between.
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

// An undo removed a file, another file was made in its place, and a second undo removed that file
// too. The second undo also counted as an undo of the first one, so the first one could not be
// redone.
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

// Session A wrote a new file twice and renamed it over B's file, which already had that content.
// The save changed nothing, but afterwards B's write counted as A's too. So an undo of A's changes
// used to undo B's write as well.
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

// A file had a second name for a while, and a redo restored the file only under that name. An undo
// that selected a change made under the first name did not find the file, and did not list the
// later changes by others.
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

// A file was renamed to the name of a removed file. Then a plan replaced it by a new file, with an
// exchange, as plans do where nothing is mounted. The exchange used to count as a move of the file,
// and the new content as unrecorded. So the next plan expected the content of the removed file.
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

// Session A made a file and changed its mode, and B changed the mode back. An undo of A's changes used
// to keep the file because of B's change, but undid that change too. A second undo then removed the
// file. Now the first undo removes it, because B left the file as A had made it.
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

// Nothing is mounted. Plans of session A remove B's file and restore it, and later both A and B
// change the file. An undo of A's changes used to report the file times that A's plans had set as a
// conflict. It also treated the file as A's, removed its directory, and kept only a hard link that
// A had made.
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
	if named := names(p.Conflicts); !slices.Equal(named, []string{"b: the directory holds other files"}) {
		t.Errorf("named %q", named)
	}
	c.carry(p)
	c.want("b/a", "2\n")
	if tr.Files["b/b"] != nil {
		t.Error("the link stays")
	}
}

// While a plan exchanged two entries, it gave a directory a temporary name. Later, other files took
// all other names that the directory had had. A redo of the plan used to make the directory again
// under its temporary name.
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

// Session A made a file and wrote to it again, and B then wrote the first content again. An undo of
// A's changes used to remove the file, although its present content is B's work.
func TestUndoKeepsWhatOthersWroteAgain(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("A", "sh", "t1", 10).do(tr.Write("a", "1\n"), tr.Write("a", "2\n"))
	c.as("B", "vim", "t2", 11).do(tr.Write("a", "1\n"))
	p := c.undo(Query{Select: store.Filter{Session: "A"}})
	if len(p.Conflicts) != 1 || p.Conflicts[0].Actor.Session != "B" {
		t.Errorf("named %+v", p.Conflicts)
	}
	c.carry(p)
	c.want("a", "1\n")
}

// B moved a file out of A's directory. A then renamed the directory twice, and B made another file
// in it under the first file's name. An undo of A's changes used to overlook the new file, because
// nothing had been recorded at its path while the directory had its intermediate name. So the undo
// tried to remove the directory.
func TestUndoKnowsWhatIsInADirectoryRenamedTwice(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("A", "sh", "t1", 10).do(tr.Mkdir("a", storetest.DirMode))
	c.as("B", "vim", "t2", 11).do(tr.Write("a/f", "1\n"), tr.Rename("a/f", "g"))
	c.as("A", "sh", "t3", 10).do(tr.Chmod("g", 0o755), tr.Rename("a", "c"), tr.Rename("c", "b"))
	c.as("B", "vim", "t4", 11).do(tr.Write("b/f", "2\n"))
	c.carry(c.undo(Query{Select: store.Filter{Session: "A"}}))
	c.want("a/f", "2\n")
	c.want("g", "1\n")
}

// Session A renamed B's file, and B made a new file under the old name. An undo of A's changes used
// to remove B's first file, because A had given it its present name.
func TestUndoKeepsAFileThatCannotReturn(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("B", "vim", "t1", 11).do(tr.Write("c", "1\n"))
	c.as("A", "mv", "t2", 10).do(tr.Rename("c", "a"))
	c.as("B", "vim", "t3", 11).do(tr.Write("c", "2\n"))
	for range 2 {
		p := c.undo(Query{Select: store.Filter{Session: "A"}})
		if len(p.Conflicts) != 2 || p.Conflicts[0].Path != "c" || p.Conflicts[1].Path != "a" {
			t.Errorf("named %+v", p.Conflicts)
		}
		c.carry(p)
		c.want("a", "1\n")
		c.want("c", "2\n")
	}
}

// A plan restored a file under two names, and then somebody changed the file. An undo of the plan
// used to keep only the name that the plan happened to have restored first. Now it keeps both.
func TestRedoKeepsAllNamesOfAChangedFile(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("B", "vim", "t1", 11).do(tr.Write("c", "1\n"), tr.Link("c", "b"))
	c.as("A", "rm", "t2", 10).do(tr.Remove("c"), tr.Remove("b"))
	undone := c.undo(Query{Select: store.Filter{Session: "A"}})
	c.carry(undone)
	c.as("A", "sh", "t3", 10).do(tr.Write("c", "2\n"))
	d, err := Planner{Store: c.s}.Redo(undone.ID, false, false)
	if err != nil || len(d.Conflicts) != 1 || len(d.Steps) > 0 {
		t.Errorf("%v, named %+v, steps %+v", err, d.Conflicts, d.Steps)
	}
}

// Session A made a directory, and both A and B changed its mode several times. An undo of A's
// changes gave the directory one of B's earlier modes, but did not report that it keeps the
// directory.
func TestUndoNamesADirectoryThatKeepsAnothersMode(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("A", "mkdir", "t1", 10).do(tr.Mkdir("c", storetest.DirMode))
	c.as("B", "sh", "t2", 11).do(tr.Chmod("c", 0o750), tr.Write("c/f", "1\n"))
	c.as("A", "chmod", "t3", 12).do(tr.Chmod("c", 0o755))
	c.as("B", "chmod", "t4", 11).do(tr.Chmod("c", 0o750), tr.Chmod("c", 0o755))
	p := c.undo(Query{Select: store.Filter{Session: "A"}})
	if len(p.Conflicts) != 1 || p.Conflicts[0].Path != "c" {
		t.Errorf("named %+v", p.Conflicts)
	}
	c.carry(p)
	if n := tr.Files["c"]; n == nil || n.Mode&0o777 != 0o750 {
		t.Errorf("the directory is %+v", n)
	}
}

// A plan restored a removed file under the name that it had before a rename. An undo of a write
// under the later name did not find the file, because it did not look at renames older than the
// write.
func TestUndoOfAWriteToAFileThatAPlanMovedBack(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("A", "sh", "t1", 10).do(tr.Write("a", "1\n"))
	c.as("A", "mv", "t2", 11).do(tr.Rename("a", "b"))
	c.as("A", "vim", "t3", 12).do(tr.Write("b", "3\n"))
	c.as("A", "vim", "t4", 13).do(tr.Write("b", "1\n"))
	c.as("B", "rm", "t5", 14).do(tr.Remove("b"))
	c.carry(c.undo(Query{Select: store.Filter{ToolCall: "t2"}}))
	c.want("a", "1\n")
	c.carry(c.undo(Query{Select: store.Filter{ToolCall: "t4"}}))
	c.want("a", "3\n")
}

// A file was renamed, exchanged, replaced by an atomic save and removed, and a restore made it
// again under its first name. An undo of the removal did not recognise it as the same file, and
// wrote a second one.
func TestUndoOfARemovalKnowsTheRestoredFile(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("B", "vim", "t1", 11).do(tr.Write("b", "1\n"))
	seq := c.s.Seq()
	c.as("B", "sh", "t2", 12).do(tr.Rename("b", "c"), tr.Write("a", "2\n"), tr.Exchange("a", "c"))
	c.as("B", "vim", "t3", 13).do(tr.Write("a.tmp", "3\n"), tr.Rename("a.tmp", "a"))
	c.as("B", "rm", "t4", 14).do(tr.Remove("a"))
	c.as("B", "rm", "t5", 14).do(tr.Remove("c"))
	p, err := Planner{Store: c.s}.Restore(nil, seq)
	if err != nil {
		t.Fatal(err)
	}
	c.carry(p)
	c.as("A", "vim", "t6", 10).do(tr.Write("b", "4\n"))
	c.carry(c.undo(Query{Select: store.Filter{ToolCall: "t4"}}))
	c.want("a", "4\n")
	if tr.Files["a"] != tr.Files["b"] {
		t.Error("a and b are separate files")
	}
}

// Session A moved B's file out of A's own directory, which a plan had restored earlier, and then
// removed both. An undo of A's changes restores the directory and the file in it, but not the name
// that the file had after the move.
func TestUndoBringsBackOneNameOfAFileInALostDirectory(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("A", "sh", "t1", 10).do(tr.Mkdir("a", storetest.DirMode))
	c.as("B", "vim", "t2", 11).do(tr.Write("a/c", "1\n"))
	c.as("A", "rm", "t3", 12).do(tr.Remove("a/c"))
	c.carry(c.undo(Query{Select: store.Filter{ToolCall: "t1"}}))
	c.carryAs(c.undo(Query{Select: store.Filter{Session: "A"}}), "A")
	c.want("a/c", "1\n")
	c.as("A", "mv", "t4", 13).do(tr.Rename("a/c", "b"))
	c.as("B", "chmod", "t5", 14).do(tr.Chmod("b", 0o750))
	c.as("A", "rm", "t6", 15).do(tr.Remove("a"), tr.Remove("b"))
	c.carry(c.undo(Query{Select: store.Filter{Session: "A"}}))
	c.want("a/c", "1\n")
	if tr.Files["b"] != nil {
		t.Error("the file has a second name")
	}
}

// An exchange of two files was undone, and then somebody moved one of them elsewhere. A redo of the
// exchange used to remove the other file, and gave its name to the moved file as a second name.
func TestRedoOfAnExchangeWhenOneFileIsElsewhere(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("B", "vim", "t1", 11).do(tr.Write("a", "1\n"), tr.Write("b", "2\n"), tr.Write("c", "3\n"))
	c.as("A", "sh", "t2", 10).do(tr.Exchange("a", "b"))
	undone := c.undo(Query{Select: store.Filter{Session: "A"}})
	c.carry(undone)
	c.as("B", "sh", "t3", 12).do(tr.Exchange("c", "a"))
	d, err := Planner{Store: c.s}.Redo(undone.ID, false, false)
	if err != nil || len(d.Steps) > 0 || len(d.Conflicts) == 0 {
		t.Errorf("%v, named %+v, steps %+v", err, d.Conflicts, d.Steps)
	}
	c.carry(d)
	c.want("b", "2\n")
	c.want("c", "1\n")
}

// Session A exchanged two files. B then moved the first one elsewhere, and wrote to the second one.
// An undo of the exchange cannot move the first one back, so both stay where they are. The second
// one used to get the free name as a second name.
func TestUndoOfAnExchangeLeavesBothFiles(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("B", "sh", "t1", 11).do(tr.Write("a", "1\n"), tr.Write("b", "2\n"))
	c.as("A", "sh", "t2", 10).do(tr.Exchange("a", "b"))
	c.as("B", "sh", "t3", 12).do(tr.Rename("b", "c"), tr.Write("a", "3\n"))
	p := c.undo(Query{Select: store.Filter{Session: "A"}})
	if len(p.Conflicts) == 0 {
		t.Error("nothing is named")
	}
	c.carry(p)
	c.want("c", "1\n")
	if names := tr.Links(tr.Files["c"]); names != 1 || len(tr.Files) != 2 {
		t.Errorf("after the undo:\n%s", show(tr.Clone()))
	}
}

// A file was removed from a directory that was then renamed twice. An undo restored the file. A
// second undo tried to restore it again, because nothing had been recorded at the file's path while
// the directory had its intermediate name.
func TestUndoKnowsWhatItRestoredInADirectoryRenamedTwice(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("B", "vim", "t1", 11).do(tr.Mkdir("d", storetest.DirMode), tr.Write("d/f", "1\n"))
	c.as("A", "sh", "t2", 10).do(tr.Remove("d/f"), tr.Rename("d", "e"))
	c.as("B", "mv", "t3", 12).do(tr.Rename("e", "g"))
	c.carry(c.undo(Query{Select: store.Filter{Session: "A"}}))
	c.want("g/f", "1\n")
	if again := c.undo(Query{Select: store.Filter{Session: "A"}}); len(again.Steps) > 0 {
		t.Errorf("undone twice: %+v", again.Steps)
	}
}

// Session A gave B's file a second name, B removed the first one, and A renamed the second one. An
// undo of A's changes used to keep the file, as if A had renamed it from B's name, and a second
// undo removed it. Without A's changes the file would be gone, so now the first undo removes it.
func TestUndoOfALinkWhoseFirstNameIsGone(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("B", "vim", "t1", 11).do(tr.Write("d", "1\n"))
	c.as("A", "ln", "t2", 10).do(tr.Link("d", "a"))
	c.as("B", "rm", "t3", 12).do(tr.Remove("d"))
	c.as("A", "mv", "t4", 13).do(tr.Rename("a", "f"))
	c.carry(c.undo(Query{Select: store.Filter{Session: "A"}}))
	if len(tr.Files) > 0 {
		t.Errorf("after the undo:\n%s", show(tr.Clone()))
	}
	if again := c.undo(Query{Select: store.Filter{Session: "A"}}); len(again.Steps) > 0 {
		t.Errorf("undone twice: %+v", again.Steps)
	}
}

// A plan moved a file by several steps, and somebody else moved the file on. A redo of the plan leaves
// the names alone. It used to overlook the other's rename, and gave the file a second name and moved a
// directory.
func TestRedoOfAPlanWhoseFileOthersMovedOn(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("A", "sh", "t1", 10).do(tr.Mkdir("b", storetest.DirMode), tr.Write("a", "5\n"))
	seq := c.s.Seq()
	c.as("A", "sh", "t2", 10).do(tr.Link("a", "c"), tr.Exchange("a", "b"))
	d, err := Planner{Store: c.s}.Restore(nil, seq)
	if err != nil {
		t.Fatal(err)
	}
	c.carry(d)
	c.as("B", "mv", "t3", 20).do(tr.Rename("a", "c"))
	d, err = Planner{Store: c.s}.Redo(d.ID, false, false)
	if err != nil || len(d.Steps) > 0 || len(d.Conflicts) != 2 {
		t.Errorf("%v %v %+v", err, names(d.Conflicts), d.Steps)
	}
}

// A session replaced the name b several times, and then somebody else removed it. An undo lists b as
// left alone. It used to move a directory of the session there nevertheless, because the session had
// made it under that name, and a second undo moved more.
func TestUndoMovesNothingToANameThatItLeavesAlone(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("B", "vim", "t0", 20).do(tr.Write("b", "first\n"))
	c.as("A", "sh", "t1", 10).do(tr.Rename("b", "z"), tr.Mkdir("b", storetest.DirMode), tr.Rename("b", "a"), tr.Write("b", "second\n"))
	c.as("B", "vim", "t2", 20).do(tr.Remove("b"), tr.Write("a/other", "other\n"))
	for range 2 {
		d := c.undo(Query{Select: store.Filter{Session: "A"}})
		if len(d.Steps) > 0 {
			t.Errorf("%v %+v", names(d.Conflicts), d.Steps)
		}
		c.carry(d)
	}
	c.want("a/other", "other\n")
	c.want("z", "first\n")
}

// A file that was renamed over another one counts as the other from then on. An undo gave it its own name back,
// so the two are separate again. A second undo took it for the other file, and wrote that one's content to it.
func TestUndoSeparatesFilesThatARenameMerged(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("A", "sh", "t1", 10).do(tr.Write("x", "other\n"), tr.Write("f", "own\n"))
	c.as("B", "sh", "t2", 11).do(tr.Write("b", ""), tr.Exchange("b", "f"))
	c.as("A", "sh", "t3", 10).do(tr.Rename("b", "x"))
	c.carry(c.undo(Query{Select: store.Filter{Session: "A"}}))
	c.want("b", "own\n")
	again, err := Planner{Store: c.s}.Undo(Query{Select: store.Filter{Session: "A"}})
	if err == nil && len(again.Steps) > 0 {
		t.Errorf("a second undo: %+v", again.Steps)
	}
}

// A file was moved into .git and came back over another file, and was removed. Everything was undone
// and redone. After that, an undo without the move into .git gave the other file the mode of the one
// that came back, because an undo that reads only one path takes that file for new content.
func TestUndoOfAFileThatCameBackOverAnother(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "sh", "", 5).do(tr.Write("own", "own\n"), tr.Chmod("own", 0o666), tr.Write("over", "over\n"))
	storetest.Wait(1)
	n, start := tr.Files["own"], storetest.Now()
	c.as("A", "mv", "t1", 10).do(tr.Remove("own"))
	c.as("B", "sh", "t2", 11).do(tr.Write("over", "changed\n"))
	tr.Files["over"] = n
	back := tr.Change(store.OpWrite, "over", "", n)
	back.HasContent, back.Content = true, []byte(n.Data)
	c.do(back, tr.Remove("over"))
	for range 2 {
		c.carry(c.undo(Query{Select: store.Filter{Since: start}}))
		c.want("over", "over\n")
		again, err := Planner{Store: c.s}.Redo("", false, false)
		if err != nil {
			t.Fatal(err)
		}
		c.carry(again)
	}
	c.carry(c.undo(Query{Select: store.Filter{Session: "B"}}))
	c.want("over", "over\n")
	if mode := tr.Files["over"].Mode; mode&0o777 != 0o644 {
		t.Errorf("mode %o", mode)
	}
}

// A session makes a symbolic link in place of one that it had moved away and removed. An undo, its redo and
// an undo of that restore the same link. The second undo used to take the link for another one, because it
// looked up every entry of a plan by its path.
func TestUndoOfALinkAfterARedo(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("B", "sh", "t1", 10).do(tr.Write("b", ""), tr.Symlink("a", "to/"), tr.Write("c", ""), tr.Rename("a", "b"))
	c.as("A", "sh", "t2", 11).do(tr.Rename("b", "c"), tr.Rename("c", "e"), tr.Remove("e"), tr.Write("a", ""), tr.Mkdir("c", storetest.DirMode), tr.Write("a", "1"), tr.Write("a", "2"), tr.Write("c/b", ""), tr.Symlink("b", "to/alpha"))
	undone := c.undo(Query{Select: store.Filter{Session: "A"}})
	c.carry(undone)
	want := tr.Clone()
	d, err := Planner{Store: c.s}.Redo(undone.ID, false, false)
	if err != nil {
		t.Fatal(err)
	}
	c.carry(d)
	c.carry(c.undo(Query{Select: store.Filter{Session: "A"}}))
	if got, was := show(tr.Clone()), show(want); tr.Files["b"] == nil || tr.Files["b"].Target != want["b"].Target {
		t.Errorf("left:\n%swant:\n%s", got, was)
	}
}
