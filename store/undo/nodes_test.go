package undo

import (
	"maps"
	"testing"

	"cachebro/scripts/testkit/storetest"
	"cachebro/store"
)

// The link count in a version is updated when its file gets another name. Because of that, an undo
// used not to recognise an atomic save if the file was linked later. It overwrote later changes by
// others with the former content, and listed no conflict.
func TestUndoOfSaveOfFileLinkedSince(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.Write("c", "3\n"))
	c.as("A", "vim", "t1", 10).do(tr.Write("c.tmp", "4\n"), tr.Rename("c.tmp", "c"))
	c.as("B", "ln", "t2", 11).do(tr.Link("c", "b"))
	c.as("B", "sh", "t3", 12).do(tr.Write("c", "6\n"))
	p := c.undo(Query{Select: store.Filter{Session: "A"}})
	if len(p.Steps) > 0 || len(p.Conflicts) != 1 || p.Conflicts[0].Path != "c" {
		t.Errorf("steps %+v, named %+v", p.Steps, p.Conflicts)
	}

	// Without that later change, the file gets its former content under both names.
	c.do(tr.Write("c", "4\n"))
	c.carry(c.undo(Query{Select: store.Filter{Session: "A"}}))
	c.want("b", "3\n")
	if !c.together("b", "c") {
		t.Errorf("the names are apart: %+v", tr.Files)
	}
}

// A file got another name after an undo. The redo used not to restore the file's mode, and gave the
// file one more name.
func TestRedoOfModeOfFileLinkedSince(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("B", "vim", "t1", 11).do(tr.Write("c", "1\n"))
	c.as("A", "sh", "t2", 10).do(tr.Chmod("c", 0o755), tr.Link("c", "b"))
	undone := c.undo(Query{Select: store.Filter{Session: "A"}})
	c.carry(undone)
	c.as("A", "ln", "t3", 12).do(tr.Link("c", "a"))
	d, err := Planner{Store: c.s}.Redo(undone.ID, false, false)
	if err != nil || len(d.Conflicts) > 0 {
		t.Fatal(err, d)
	}
	c.carry(d)
	if mode := tr.Files["a"].Mode; mode&0o777 != 0o755 || !c.together("a", "b", "c") {
		t.Errorf("mode %o, files %+v", mode, tr.Files)
	}
}

// A directory stays because others have files in it. The planner used to find this out only after
// it had decided about a file that A had moved out of the directory. So the file got its old name
// in the directory, and also kept the name that A had given it.
func TestUndoOfFileMovedOutOfDirectoryOfOthers(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("A", "sh", "t1", 10).do(tr.Mkdir("a", storetest.DirMode))
	c.as("B", "sh", "t2", 11).do(tr.Write("a/b", "1\n"), tr.Write("a/c", "2\n"))
	before := tr.Clone()
	c.as("A", "mv", "t3", 12).do(tr.Rename("a/c", "a/b"))
	c.as("B", "sh", "t4", 13).do(tr.Write("a/b", "3\n"))
	c.as("A", "mv", "t5", 14).do(tr.Rename("a/b", "b"))
	c.carry(c.undo(Query{Select: store.Filter{Session: "A"}}))
	want := before["a/c"]
	want.Data = "3\n"
	before["a/c"] = want
	if now := tr.Clone(); !maps.Equal(now, before) {
		t.Errorf("after the undo:\n%swant\n%s", show(now), show(before))
	}
}

// Session A moved a file or directory and removed it at the new path, and an undo of both restored
// it at the old path. A second undo, of the removal alone, used not to read the history of the old
// path, and so it made a second directory or file.
func TestUndoOfRemovalOfWhatIsElsewhere(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "sh", "", 5).do(tr.Mkdir("d", storetest.DirMode), tr.Write("f", "1\n"))
	c.as("A", "mv", "t1", 10).do(tr.Rename("d", "d2"), tr.Rename("d2", "d3"), tr.Rename("f", "f2"))
	c.as("A", "rm", "t2", 11).do(tr.Remove("d3"), tr.Remove("f2"))
	c.carry(c.undo(Query{Select: store.Filter{Session: "A"}}))
	p := c.undo(Query{Select: store.Filter{ToolCall: "t2"}})
	if len(p.Conflicts) != 1 || p.Conflicts[0].Path != "d3" || p.Conflicts[0].Why != "it is elsewhere now" {
		t.Errorf("named %+v", p.Conflicts)
	}
	c.carry(p)
	if tr.Files["d3"] != nil || !c.together("f", "f2") {
		t.Errorf("files %+v", tr.Files)
	}
}

// A scan found a file before its creation was recorded. If the file was linked later, the record of
// its creation was ignored, and an undo left the file there without listing it.
func TestUndoOfFoundFileLinkedSince(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("A", "sh", "t1", 10)
	made := tr.Write("a", "1\n")
	found := made
	found.Op, found.Actor = store.OpBaseline, store.Actor{}
	c.do(found, made)
	c.as("B", "ln", "t2", 11).do(tr.Link("a", "b"))
	p := c.undo(Query{Select: store.Filter{Session: "A"}})
	if len(p.Conflicts)+len(p.Lost) > 0 {
		t.Errorf("named %+v %+v", p.Conflicts, p.Lost)
	}
	c.carry(p)
	c.want("b", "1\n")
	if tr.Files["a"] != nil {
		t.Error("a is still there")
	}
}

// If a directory stays only because others have changed a file in it, an undo moves it back to
// where it was made. Such a directory used to stay where an exchange had put it, and was listed as
// a conflict.
func TestUndoOfExchangeOfDirectoryWithChangedFile(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("A", "sh", "t1", 10).do(tr.Mkdir("b", storetest.DirMode), tr.Write("b/c", "1\n"))
	c.as("B", "sh", "t2", 11).do(tr.Write("b/c", "2\n"))
	want := tr.Clone()
	c.as("A", "sh", "t3", 12).do(tr.Mkdir("c", storetest.DirMode), tr.Exchange("c", "b"))
	c.carry(c.undo(Query{Select: store.Filter{Session: "A"}}))
	if now := tr.Clone(); !maps.Equal(now, want) {
		t.Errorf("after the undo:\n%swant\n%s", show(now), show(want))
	}
}

// A history from another machine has no inode numbers of this machine. After an exchange, a path's
// newest version refers to the other path, which now holds the other file. A restore used to take
// the two for one file.
func TestRestoreOfWhatWasExchangedElsewhere(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "sh", "", 5)
	elsewhere := []store.Change{tr.Write("a", "1\n"), tr.Write("b", "2\n"), tr.Exchange("a", "b")}
	for i := range elsewhere {
		elsewhere[i].Stat.Ino = 0
	}
	c.do(elsewhere...)
	then := c.s.Seq()
	c.as("", "rm", "", 6).do(tr.Remove("a"))
	p, err := Planner{Store: c.s}.Restore([]store.Path{"a", "b"}, then)
	if err != nil {
		t.Fatal(err)
	}
	c.carry(p)
	c.want("a", "2\n")
	c.want("b", "1\n")
}

// An undo moves a directory back, with a file in it that others have changed. The conflict for the
// file used to have a path that the file no longer had after the undo.
func TestConflictInDirectoryThatGoesBack(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "sh", "", 5).do(tr.Mkdir("d", storetest.DirMode), tr.Write("d/f", "1\n"))
	c.as("A", "sh", "t1", 10).do(tr.Write("d/f", "2\n"), tr.Rename("d", "e"))
	c.as("B", "vim", "t2", 11).do(tr.Write("e/f", "3\n"))
	p := c.undo(Query{Select: store.Filter{Session: "A"}})
	if len(p.Conflicts) != 1 || p.Conflicts[0].Path != "d/f" {
		t.Errorf("named %+v", p.Conflicts)
	}
	c.carry(p)
	c.want("d/f", "3\n")
}

// A file's first record in the history is a write to it. A listing of an earlier moment used to
// leave the file out, so a fork of that moment did not report it as lost.
func TestListNamesWhatNobodySaw(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "sh", "", 5).do(tr.Write("a", "1\n"))
	then := c.s.Seq()
	unseen := tr.Write("b", "2\n")
	unseen.Op = store.OpWrite
	c.do(unseen)
	all, _, err := Planner{Store: c.s}.List("", then)
	if err != nil || len(all) != 2 || all[1].Path != "b" || all[1].Why != "what was there before is not known" {
		t.Errorf("%+v, %v", all, err)
	}
}

// The files of a directory were moved to a new directory, two of them under each other's name, and the new
// directory took the name of the old one. The plan used to make the old directory, move it aside as if
// it were the new one, and make it again, so it left the files in a directory with a temporary name.
func TestUndoOfNewDirectoryWithSwappedFiles(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.Mkdir("d", storetest.DirMode), tr.Write("d/1", "1\n"), tr.Write("d/2", "2\n"), tr.Write("d/3", "3\n"))
	before := tr.Clone()
	c.as("A", "mv", "t1", 10).do(tr.Mkdir("e", storetest.DirMode), tr.Rename("d/1", "e/2"), tr.Rename("d/2", "e/1"), tr.Rename("d/3", "e/3"),
		tr.Remove("d"), tr.Rename("e", "d"), tr.Write("d/3", "three\n"))
	after := tr.Clone()
	undone := c.undo(Query{Select: store.Filter{Session: "A"}})
	c.carry(undone)
	if now := tr.Clone(); !maps.Equal(now, before) {
		t.Errorf("after the undo:\n%swant\n%s", show(now), show(before))
	}
	redone, err := Planner{Store: c.s}.Redo(undone.ID, false, false)
	if err != nil {
		t.Fatal(err)
	}
	c.carry(redone)
	if now := tr.Clone(); !maps.Equal(now, after) {
		t.Errorf("after the redo:\n%swant\n%s", show(now), show(after))
	}
}
