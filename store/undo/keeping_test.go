package undo

import (
	"maps"
	"testing"

	"cachebro/scripts/testkit/storetest"
	"cachebro/store"
)

// undoTwice undoes session A's changes, and checks that a second undo does nothing. It returns the
// first plan.
func (c *scene) undoTwice() *Draft {
	c.Helper()
	all := Query{Select: store.Filter{Session: "A"}}
	first := c.undo(all)
	c.carry(first)
	again, err := Planner{Store: c.s}.Undo(all)
	if err == nil && len(again.Steps) > 0 {
		c.Errorf("a second undo: %+v", again.Steps)
	}
	return first
}

// B changed a file that A had made, and then wrote again what A had left. So the file is as A left
// it. An undo used to return it to A's first content and to keep it because of B, and a second undo
// removed it.
func TestUndoRemovesAFileThatIsAsItWasLeft(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("A", "sh", "t1", 10).do(tr.Write("a", "1\n"), tr.Write("a", "2\n"))
	c.as("B", "vim", "t2", 11).do(tr.Write("a", "3\n"), tr.Write("a", "2\n"))
	if d := c.undoTwice(); len(d.Conflicts) > 0 || tr.Files["a"] != nil {
		t.Errorf("named %v, a is %+v", names(d.Conflicts), tr.Files["a"])
	}
}

// B moved A's file away and back, and then A renamed it. An undo used to keep the file under the name
// that B had given back to it, and a second undo removed it. The same happened if A moved the file
// into a directory of its own.
func TestUndoRemovesAFileThatOthersMovedBack(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("A", "sh", "t1", 10).do(tr.Write("a", "1\n"), tr.Mkdir("d", storetest.DirMode))
	c.as("B", "sh", "t2", 11).do(tr.Write("b", "2\n"), tr.Exchange("a", "b"), tr.Exchange("b", "a"))
	c.as("A", "mv", "t3", 12).do(tr.Rename("a", "d/a"))
	if d := c.undoTwice(); len(d.Conflicts) > 0 || len(tr.Files) != 1 {
		t.Errorf("named %v, left:\n%s", names(d.Conflicts), show(tr.Clone()))
	}
	c.want("b", "2\n")
}

// B wrote to A's file and removed its last name, and A made another file under that name. An undo
// removes the new file. It used to count B's removal as undone, so a second undo made the first file again.
func TestUndoLeavesRemovedWhatOthersRemoved(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("A", "sh", "t1", 10).do(tr.Write("f", "1\n"), tr.Link("f", "b"))
	c.as("B", "vim", "t2", 11).do(tr.Write("f", "3\n"))
	c.as("A", "rm", "t1", 10).do(tr.Remove("f"))
	c.as("B", "rm", "t2", 11).do(tr.Remove("b"))
	c.as("A", "sh", "t3", 12).do(tr.Write("b", "2\n"))
	c.undoTwice()
	if len(tr.Files) > 0 {
		t.Errorf("left:\n%s", show(tr.Clone()))
	}
}

// B wrote to A's file. A restore removed the file, and A brought it back by a redo. Without A's
// changes the file would be gone, so an undo removes it. It used to keep the file because of what B
// had written before the restore.
func TestUndoRemovesAFileThatOnlyARedoBroughtBack(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("A", "sh", "t1", 10).do(tr.Write("a", "1\n"))
	c.as("B", "vim", "t2", 11).do(tr.Write("a", "2\n"))
	restored, err := Planner{Store: c.s}.Restore(nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	c.carry(restored)
	redone, err := Planner{Store: c.s}.Redo(restored.ID, false, false)
	if err != nil {
		t.Fatal(err)
	}
	c.carryAs(redone, "A")
	c.want("a", "2\n")
	if d := c.undoTwice(); len(d.Conflicts) > 0 || len(tr.Files) > 0 {
		t.Errorf("named %v, left:\n%s", names(d.Conflicts), show(tr.Clone()))
	}
}

// A exchanged its own file with B's in its own directory, B had saved the first one and moved the
// second one out. An undo keeps the directory with B's save in it. It used to give that file a second
// name there, because it decided about the file before it had decided to keep the directory.
func TestUndoKeepsAFileInADirectoryUnderOneName(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("A", "mkdir", "t1", 10).do(tr.Mkdir("a", storetest.DirMode))
	c.as("B", "vim", "t2", 11).do(tr.Write("a/c", "5\n"))
	c.as("A", "sh", "t3", 12).do(tr.Write("a/a", "8\n"))
	c.as("B", "vim", "t4", 13).do(tr.Write("a/a.tmp", "9\n"), tr.Rename("a/a.tmp", "a/a"))
	c.as("A", "sh", "t5", 14).do(tr.Exchange("a/a", "a/c"))
	c.as("B", "mv", "t6", 15).do(tr.Rename("a/a", "b"))
	if d := c.undoTwice(); len(d.Conflicts) == 0 || len(tr.Files) != 3 {
		t.Errorf("named %v, left:\n%s", names(d.Conflicts), show(tr.Clone()))
	}
	c.want("a/c", "9\n")
	c.want("b", "5\n")
}

// A renamed one of a file's names, and a person undid that. Later, A replaced the name. An undo gives
// the name back to the file. It used to leave the name alone, as if others had moved the file on
// after A's rename.
func TestUndoIgnoresARenameThatWasUndone(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("B", "sh", "t1", 11).do(tr.Write("a", "1\n"), tr.Link("a", "c"))
	c.as("A", "mv", "t2", 10).do(tr.Rename("a", "b"))
	c.carry(c.undo(Query{Select: store.Filter{Session: "A"}}))
	c.as("A", "sh", "t3", 12).do(tr.Write("z", "2\n"), tr.Rename("z", "a"))
	if d := c.undoTwice(); len(d.Conflicts) > 0 || len(tr.Files) != 2 || !c.together("a", "c") {
		t.Errorf("named %v, left:\n%s", names(d.Conflicts), show(tr.Clone()))
	}
}

// A plan replaced a file's inode by an exchange, as without a mount. The file was then renamed and
// removed, and a restore made it again under an older name. An undo of the removal used to overlook
// that name, and made a second file.
func TestUndoOfARemovalKnowsAFileThatAPlanReplaced(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	tr.Bare = true
	c.as("B", "vim", "t1", 11).do(tr.Write("b", "1\n"))
	seq := c.s.Seq()
	c.as("B", "mv", "t2", 11).do(tr.Rename("b", "c"))
	c.as("A", "vim", "t3", 10).do(tr.Write("c", "2\n"))
	c.carry(c.undo(Query{Select: store.Filter{Session: "A"}}))
	c.as("B", "mv", "t4", 12).do(tr.Rename("c", "a"))
	c.as("B", "rm", "t5", 13).do(tr.Remove("a"))
	restored, err := Planner{Store: c.s}.Restore(nil, seq)
	if err != nil {
		t.Fatal(err)
	}
	c.carry(restored)
	c.want("b", "1\n")
	c.carry(c.undo(Query{Select: store.Filter{ToolCall: "t5"}}))
	if !c.together("a", "b") {
		t.Errorf("left:\n%s", show(tr.Clone()))
	}
}

// A exchanged two directories, and moved the one above the second into the first. An undo moves that
// directory out and exchanges the two again. It used to rename the exchanged directory to a temporary
// name and back.
func TestUndoOfAnExchangeRenamesNothingTwice(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("B", "sh", "t1", 11).do(tr.Mkdir("c", storetest.DirMode), tr.Write("c/n", "1\n"), tr.Mkdir("d", storetest.DirMode),
		tr.Mkdir("d/x", storetest.DirMode), tr.Write("d/x/t", "2\n"))
	c.as("A", "sh", "t2", 10).do(tr.Exchange("c", "d/x"), tr.Rename("d", "c/d"))
	d := c.undo(Query{Select: store.Filter{Session: "A"}})
	if len(d.Steps) != 2 {
		t.Errorf("%d steps: %+v", len(d.Steps), d.Steps)
	}
	c.carry(d)
	c.want("c/n", "1\n")
	c.want("d/x/t", "2\n")
}

// A removed a file that B had saved, and made a directory under its name, which A then renamed and in
// which B wrote. An undo gives the name back to the file, and the directory stays where it is.
func TestUndoKeepsAFileBeforeALaterDirectory(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("A", "sh", "t1", 10).do(tr.Write("c", "1\n"))
	c.as("B", "vim", "t2", 11).do(tr.Write("c.tmp", "4\n"), tr.Rename("c.tmp", "c"))
	c.as("A", "sh", "t3", 12).do(tr.Remove("c"), tr.Mkdir("c", storetest.DirMode))
	c.as("B", "vim", "t4", 13).do(tr.Write("c/f", "5\n"))
	c.as("A", "mv", "t5", 14).do(tr.Rename("c", "b"))
	c.undoTwice()
	c.want("c", "4\n")
	c.want("b/f", "5\n")
}

// Session A exchanged a file that B had changed with another one. B removed its new name, and A another
// one, and made a new file in its place. An undo brings the file back to that name. That used to count as
// if B had not removed the name, so that a second undo also undid the exchange.
func TestBringingAFileBackCancelsNothingOfOthers(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("B", "vim", "t1", 11).do(tr.Write("b", "1\n"))
	c.as("A", "sh", "t2", 10).do(tr.Write("a", "2\n"))
	c.as("B", "chmod", "t3", 11).do(tr.Chmod("a", 0o700))
	c.as("A", "sh", "t4", 10).do(tr.Exchange("a", "b"), tr.Link("b", "c"))
	c.as("B", "rm", "t5", 11).do(tr.Remove("b"))
	c.as("A", "sh", "t6", 12).do(tr.Remove("c"), tr.Write("b", "3\n"))
	was := tr.Shape()
	d := c.undoTwice()
	c.want("a", "1\n")
	c.want("b", "2\n")
	redo, err := Planner{Store: c.s}.Redo(d.ID, false, false)
	if err != nil {
		t.Fatal(err)
	}
	c.carry(redo)
	if now := tr.Shape(); !maps.Equal(now, was) {
		t.Errorf("after the redo:\n%s", shape(now))
	}
}

// Session A moved a directory out of one that B removed then. An undo makes that one again, and the
// directory returns into it. The undo used to leave the directory where it was, and to make an empty one.
func TestUndoMovesADirectoryBackIntoARemovedOne(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("B", "sh", "t1", 11).do(tr.Mkdir("e", storetest.DirMode), tr.Mkdir("e/b", storetest.DirMode), tr.Write("e/b/b", "1\n"))
	c.as("A", "sh", "t2", 10).do(tr.Rename("e/b", "a"), tr.Remove("a/b"))
	c.as("B", "rmdir", "t3", 11).do(tr.Remove("e"))
	if d := c.undoTwice(); len(d.Conflicts) > 0 {
		t.Error(names(d.Conflicts))
	}
	c.want("e/b/b", "1\n")
}
