package undo

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"cachebro/scripts/testkit/storetest"
	"cachebro/store"
	"cachebro/store/leaf/ignore"

	"golang.org/x/sys/unix"
)

// An undo of one file used to undo half of an atomic save: the rename, but not the creation of the
// temporary file, which stayed in the tree.
func TestUndoOfPathTakesWholeSave(t *testing.T) {
	for _, q := range []Query{
		{Select: store.Filter{Session: "A"}, In: Names{Paths: []store.Path{"src/a.go"}}},
		{Select: store.Filter{Session: "A"}, In: Names{Globs: []string{"src/*.go"}}},
		{Last: true, In: Names{Paths: []store.Path{"src/a.go"}}},
	} {
		c := newScene(t)
		tr := c.tr
		c.as("", "vim", "", 5).do(tr.Mkdir("src", storetest.DirMode), tr.Write("src/a.go", "a\n"), tr.Write("src/b", "b\n"))
		before := tr.Clone()
		c.as("A", "sed", "t1", 10).do(tr.Chmod("src/b", 0o600))
		other := tr.Files["src/b"].Mode
		c.do(tr.Write("src/sedXYZ", "AAA\n"), tr.Chmod("src/sedXYZ", 0o644), tr.Rename("src/sedXYZ", "src/sed2"), tr.Rename("src/sed2", "src/a.go"))
		after := tr.Clone()
		c.carry(c.undo(q))
		tr.Files["src/b"].Mode = 0o644 | unix.S_IFREG
		if now := tr.Clone(); !maps.Equal(now, before) {
			t.Fatalf("%+v: after undo:\n%swant\n%s", q, show(now), show(before))
		}
		tr.Files["src/b"].Mode = other
		p, err := Planner{Store: c.s}.Redo("", false, false)
		if err != nil {
			t.Fatal(err)
		}
		c.carry(p)
		if now := tr.Clone(); !maps.Equal(now, after) {
			t.Fatalf("%+v: after redo:\n%swant\n%s", q, show(now), show(after))
		}
	}
}

// A session changed a file twice, and another session changed it in between. An undo of the first
// session used to leave its older change alone without reporting that.
func TestUndoBelowOthers(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	text := func(first, middle, last string) string {
		gap := strings.Repeat("same\n", 4)
		return first + "\n" + gap + middle + "\n" + gap + last + "\n"
	}
	c.as("", "vim", "", 5).do(tr.Write("a", text("1", "5", "9")), tr.Write("b", text("1", "5", "9")), tr.Write("c", "0\n"))
	c.as("A", "sed", "t1", 10).do(tr.Write("a", text("one", "5", "9")), tr.Write("b", text("one", "5", "9")), tr.Write("c", "1\n"))
	c.as("B", "sed", "t2", 11).do(tr.Write("a", text("one", "five", "9")), tr.Write("b", text("ONE", "5", "9")), tr.Write("c", "2\n"))
	c.as("B", "sed", "t3", 11).do(tr.Write("c", "1\n"))
	c.as("A", "sed", "t4", 10).do(tr.Write("a", text("one", "five", "nine")), tr.Write("b", text("ONE", "5", "nine")), tr.Write("c", "3\n"))

	all := Query{Select: store.Filter{Session: "A"}}
	p := c.undo(all)
	if len(p.Conflicts) != 2 || p.Conflicts[0].Path != "a" || p.Conflicts[1].Path != "b" || p.Conflicts[0].Actor.Session != "B" {
		t.Fatalf("the older changes are not named: %+v", p.Conflicts)
	}
	c.carry(p)
	c.want("a", text("one", "five", "9"))
	c.want("b", text("ONE", "5", "9"))
	c.want("c", "0\n") // B had already undone its own change
	again, err := Planner{Store: c.s}.Redo("", false, false)
	if err != nil {
		t.Fatal(err)
	}
	c.carry(again)

	all.Merge = true
	p = c.undo(all)
	if len(p.Conflicts) != 1 || p.Conflicts[0].Path != "b" {
		t.Fatalf("what cannot be merged is not named: %+v", p.Conflicts)
	}
	c.carry(p)
	c.want("a", text("1", "five", "9"))
	c.want("b", text("ONE", "5", "9"))
	if again, err = (Planner{Store: c.s}).Redo("", false, false); err != nil {
		t.Fatal(err)
	}
	c.carry(again)
	c.want("a", text("one", "five", "nine"))

	all.Merge, all.Force = false, true
	p = c.undo(all)
	if len(p.Conflicts) > 0 {
		t.Fatalf("by force: %+v", p.Conflicts)
	}
	c.carry(p)
	c.want("a", text("1", "5", "9"))
	c.want("b", text("1", "5", "9"))
}

// A step that fails leaves traces of its own in the history, such as a file that was made and
// removed again on a full disk. A second undo used to take that for a removal by somebody else.
func TestUndoAgainAfterAFailedStep(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.Write("r", "kept\n"), tr.Write("s", "s\n"))
	c.as("A", "rm", "t1", 10).do(tr.Remove("r"), tr.Remove("s"))
	p := c.undo(Query{Select: store.Filter{Session: "A"}})
	if err := c.s.Journal.Begin(t.Context(), &p.Plan, p.Made); err != nil {
		t.Fatal(err)
	}
	tr.Plan = p.ID
	c.as("", "cachebro", "", 99).do(tr.Write("r", ""), tr.Remove("r"), tr.Write("s", "s\n"))
	tr.Plan = ""
	if err := c.s.Journal.Finish(p.ID, []store.Conflict{{Path: "r", Why: "no space left on device"}}); err != nil {
		t.Fatal(err)
	}
	p = c.undo(Query{Select: store.Filter{Session: "A"}})
	if len(p.Conflicts) > 0 || len(p.Steps) != 1 {
		t.Fatalf("%+v\n%+v", p.Conflicts, p.Steps)
	}
	c.carry(p)
	c.want("r", "kept\n")
}

// The removal of a directory used to be recorded for only some of the names in it if one of them
// was already gone.
func TestRmdirOfMoreThanIsLive(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.Mkdir("d", storetest.DirMode), tr.Mkdir("d/e", storetest.DirMode), tr.Write("d/a", "a\n"), tr.Write("d/e/b", "b\n"), tr.Write("d/z", "z\n"))
	gone := tr.Change(store.OpRmdir, "d", "", tr.Files["d"])
	c.as("A", "rm", "t1", 10).do(tr.Remove("d/z"), gone)
	for _, p := range []store.Path{"d", "d/e", "d/a", "d/e/b", "d/z"} {
		if v, _, err := c.s.Current(p); err != nil || !v.Deleted() {
			t.Errorf("%q is still there: %+v %v", p, v, err)
		}
	}
}

// A directory disappears from the history as a whole, as it does when it is moved into a git
// directory. A directory in it is known only because it contains a file. The undo used to have no
// step that makes the inner directory, so a redo did not remove it.
func TestUndoMakesADirectoryKnownByAFileInIt(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.Mkdir("d", storetest.DirMode), tr.Write("d/sub/deep/x", "1\n"))
	c.as("A", "mv", "t1", 10)
	c.do(tr.Change(store.OpRmdir, "d", "", tr.Files["d"]))
	var made []store.Path
	for _, s := range c.undo(Query{Select: store.Filter{Session: "A"}}).Steps {
		if s.Do == store.DoMkdir {
			made = append(made, s.Path)
		}
	}
	if want := []store.Path{"d", "d/sub", "d/sub/deep"}; !slices.Equal(made, want) {
		t.Errorf("made %q, want %q", made, want)
	}
}

// If nothing was left of the newest action, an undo of the last action used to do nothing, however
// often it was requested. So the actions before it could not be undone.
func TestUndoPassesByWhatLeftNothing(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.Write("a", "0\n"))
	c.as("A", "sh", "t1", 10).do(tr.Write("a", "1\n"))
	c.as("A", "sh", "t2", 11).do(tr.Write("temp", "x\n"), tr.Remove("temp"))
	c.carry(c.undo(Query{Last: true}))
	c.want("a", "0\n")
}

// A process removed a directory and renamed another one, which it had filled, to its place. The
// planner used to look for the files under the name from before the rename, and so did not find
// them.
func TestUndoOfDirectoryReplacedByAFullOne(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.Mkdir("out", storetest.DirMode), tr.Write("out/old", "old\n"))
	before := tr.Clone()
	c.as("A", "build", "t1", 10).do(tr.Mkdir("tmp", storetest.DirMode), tr.Mkdir("tmp/sub", storetest.DirMode), tr.Write("tmp/sub/new", "new\n"),
		tr.Remove("out/old"), tr.Remove("out"), tr.Rename("tmp", "out"))
	after := tr.Clone()
	c.carry(c.undo(Query{Select: store.Filter{Session: "A"}}))
	if now := tr.Clone(); !maps.Equal(now, before) {
		t.Fatalf("after undo:\n%swant\n%s", show(now), show(before))
	}
	p, err := Planner{Store: c.s}.Redo("", false, false)
	if err != nil {
		t.Fatal(err)
	}
	c.carry(p)
	if now := tr.Clone(); !maps.Equal(now, after) {
		t.Fatalf("after redo:\n%swant\n%s", show(now), show(after))
	}
}

// Somebody made a directory again, but that is not in the history. The content of a file in it was
// saved before the file was removed, but an undo used to list the file as lost.
func TestUndoInUnknownDirectory(t *testing.T) {
	for _, before := range []string{"", "write"} {
		c := newScene(t)
		tr := c.tr
		c.as("A", "rm", "t1", 10).do(tr.Mkdir("d", storetest.DirMode), tr.Write("d/f", "1\n"))
		c.do(tr.Remove("d/f"), tr.Remove("d"))
		tr.Mkdir("d", storetest.DirMode) // not reported
		tr.Mkdir("d/e", storetest.DirMode)
		tr.Write("d/e/g", "3\n")
		found := func(p store.Path) store.Change {
			b := tr.Change(store.OpBaseline, p, "", tr.Files[p])
			b.Actor, b.HasContent, b.Content = store.Actor{}, tr.Files[p].Mode == storetest.FileMode, []byte(tr.Files[p].Data)
			return b
		}
		tr.Write("d/f", "2\n")
		if before != "" {
			c.as("A", "sh", "t2", 10).do(found("d/f"), tr.Write("d/f", "4\n"))
		}
		want := tr.Clone()
		c.as("B", "rm", "t3", 11)
		for _, p := range []store.Path{"d/f", "d/e/g", "d/e", "d"} {
			if p != "d/f" || before == "" {
				c.do(found(p))
			}
			c.do(tr.Remove(p))
		}
		d := c.undo(Query{Select: store.Filter{Session: "B"}})
		if len(d.Lost)+len(d.Conflicts) > 0 {
			t.Errorf("%q: lost %+v, conflicts %+v, steps %+v", before, d.Lost, d.Conflicts, d.Steps)
		}
		c.carry(d)
		if diff := storetest.Differs(c.s, want); diff != "" {
			t.Errorf("%q: the log: %s", before, diff)
		}
		for p, f := range want {
			now := tr.Files[p]
			if now == nil || now.Mode != f.Mode || now.Data != f.Data {
				t.Errorf("%q: %s is %+v, want %+v", before, p, now, f)
			}
		}
	}
}

// A process renamed a file over another one and then back. The planner used to merge each of the
// two nodes into the other, and then ran forever.
func TestUndoOfSaveThatIsRenamedBack(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.Write("b", "b\n"))
	before := tr.Clone()
	c.as("A", "build", "t1", 10).do(tr.Write("a", "1\n"), tr.Write("tmp", "2\n"), tr.Rename("tmp", "a"), tr.Rename("a", "tmp"), tr.Write("tmp", "3\n"))
	after := tr.Clone()
	c.carry(c.undo(Query{Select: store.Filter{Session: "A"}, In: Names{Paths: []store.Path{"a", "tmp"}}}))
	if now := tr.Clone(); !maps.Equal(now, before) {
		t.Fatalf("after undo:\n%swant\n%s", show(now), show(before))
	}
	p, err := Planner{Store: c.s}.Redo("", false, false)
	if err != nil {
		t.Fatal(err)
	}
	c.carry(p)
	if now := tr.Clone(); !maps.Equal(now, after) {
		t.Fatalf("after redo:\n%swant\n%s", show(now), show(after))
	}
}

// Session A made a directory, and moved B's directory out of it. An undo moves the inner directory
// back, and keeps the outer one because of it. The planner used to decide about both at the same
// time, and left the inner one where it was.
func TestUndoOfMoveOutOfDirectoryThatStays(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.Mkdir("a", storetest.DirMode))
	c.as("A", "sh", "t1", 10).do(tr.Mkdir("c", storetest.DirMode))
	c.as("B", "sh", "t2", 11).do(tr.Mkdir("c/a", storetest.DirMode))
	c.as("A", "sh", "t3", 12).do(tr.Rename("c/a", "a/a"))
	c.as("B", "sh", "t4", 13).do(tr.Write("a/a/f", "f\n"))
	c.carry(c.undo(Query{Select: store.Filter{Session: "A"}}))
	c.want("c/a/f", "f\n")
}

// B wrote to a file that A had made, and A renamed the file. Then a redo reversed an earlier undo
// that concerned the file's first name. After that, an undo of A's changes used to neither restore
// nor report the file.
func TestUndoKeepsWhatOthersWroteBeforeARename(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("A", "sh", "t1", 10).do(tr.Symlink("b", "to"))
	c.as("B", "sh", "t2", 11).do(tr.Symlink("a", "other"))
	undone := c.undo(Query{Select: store.Filter{Session: "A"}})
	c.carry(undone)
	c.as("A", "sh", "t3", 12).do(tr.Remove("a"), tr.Write("b", "0\n"))
	c.as("B", "sh", "t4", 13).do(tr.Write("b", "of B\n"))
	c.as("A", "sh", "t5", 14).do(tr.Rename("b", "a"), tr.Write("a", "1\n"))
	d, err := Planner{Store: c.s}.Redo(undone.ID, false, false)
	if err != nil {
		t.Fatal(err)
	}
	c.carry(d)
	c.carry(c.undo(Query{Select: store.Filter{Session: "A"}}))
	c.want("b", "of B\n")
}

// A pipe was exchanged with a directory. The undo removes the pipe, and the redo cannot make it
// again. The redo used to leave the directory where it was, although it could have moved it. An
// undo of the redo moves the directory back.
func TestRedoOfExchangeWithAPipe(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.Mkdir("d", storetest.DirMode), tr.Write("d/f", "f\n"))
	c.as("A", "sh", "t1", 10).do(tr.Mkfifo("p"), tr.Exchange("p", "d"))
	for lost := 1; lost >= 0; lost-- { // in the second round there is no pipe that could be lost again
		c.carry(c.undo(Query{Select: store.Filter{Session: "A"}}))
		c.want("d/f", "f\n")
		d, err := Planner{Store: c.s}.Redo("", false, false)
		if err != nil || len(d.Lost) != lost || len(d.Conflicts) > 0 {
			t.Fatalf("%v: lost %+v, conflicts %+v", err, d.Lost, d.Conflicts)
		}
		c.carry(d)
		c.want("p/f", "f\n")
	}
}

// Directories were moved into each other, so that each ended up in one that had been next to it or
// below it. The planner used to move one of them to its place as part of another move, and then
// tried to move it again from its old place. So the redo ended in a panic.
func TestRedoOfDirectoriesMovedIntoEachOther(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.Mkdir("out", storetest.DirMode), tr.Mkdir("out/deep", storetest.DirMode), tr.Mkdir("out/lib", storetest.DirMode), tr.Write("out/f", "f\n"), tr.Write("out/deep/g", "g\n"), tr.Write("out/lib/h", "h\n"))
	before := tr.Clone()
	c.as("A", "mv", "t1", 10).do(tr.Rename("out/deep", "out/lib/src"), tr.Rename("out/lib", "tmp"), tr.Rename("out", "tmp/src/tmp"))
	after := tr.Clone()
	for range 2 {
		c.carry(c.undo(Query{Select: store.Filter{Session: "A"}}))
		if now := tr.Clone(); !maps.Equal(now, before) {
			t.Fatalf("after undo:\n%swant\n%s", show(now), show(before))
		}
		d, err := Planner{Store: c.s}.Redo("", false, false)
		if err != nil {
			t.Fatal(err)
		}
		c.carry(d)
		if now := tr.Clone(); !maps.Equal(now, after) {
			t.Fatalf("after redo:\n%swant\n%s", show(now), show(after))
		}
	}
}

// If a directory had been renamed, a restore of a path in it used to do nothing, and listed no
// conflict.
func TestRestoreBelowRenamedDirectory(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "sh", "", 5).do(tr.Mkdir("d", storetest.DirMode), tr.Write("d/f", "1\n"))
	seq := c.s.Seq()
	c.do(tr.Rename("d", "e"), tr.Write("e/f", "2\n"))
	p, err := Planner{Store: c.s}.Restore([]store.Path{"d/f"}, seq)
	if err != nil || len(p.Steps) > 0 || len(p.Conflicts) != 1 || p.Conflicts[0].Path != "d/f" {
		t.Fatalf("%v, steps %+v, named %+v", err, p.Steps, p.Conflicts)
	}
}

// A restore of a renamed directory used to move it back, but did not restore a file that had been
// changed under the directory's new name.
func TestRestoreOfRenamedDirectory(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "sh", "", 5).do(tr.Mkdir("d", storetest.DirMode), tr.Write("d/f", "1\n"), tr.Write("d/g", "g\n"))
	seq := c.s.Seq()
	c.do(tr.Rename("d", "e"), tr.Write("e/f", "2\n"), tr.Remove("e/g"))
	for range 20 { // whether the file was restored depended on the order of a map
		p, err := Planner{Store: c.s}.Restore([]store.Path{"d"}, seq)
		if err != nil || len(p.Conflicts) > 0 || len(p.Lost) > 0 {
			t.Fatalf("%v, named %+v, lost %+v", err, p.Conflicts, p.Lost)
		}
		for _, path := range []store.Path{"d/f", "d/g"} {
			if !slices.ContainsFunc(p.Steps, func(s store.Step) bool { return s.Path == path }) {
				t.Errorf("no step for %s in %+v", path, p.Steps)
			}
		}
	}
}

// A requested file stays in a directory that the same undo moves back. The conflict used to have
// the path that the file had before the undo, although nothing is there afterwards.
func TestStayingFileIsNamedByItsPathAfterUndo(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.Mkdir("a", storetest.DirMode), tr.Mkdir("a/b", storetest.DirMode), tr.Mkdir("a/b/dir", storetest.DirMode),
		tr.Write("a/b/dir/x", "1\n"), tr.Write("a/file", "file\n"), tr.Write("other", "other\n"))
	c.as("A", "sh", "t1", 10).do(tr.Write("a/b/dir/x", "2\n"), tr.Exchange("a/file", "a/b/dir"), tr.Exchange("a/b", "other"))
	p := c.undo(Query{Select: store.Filter{Session: "A"}, In: Names{Paths: []store.Path{"a/b/dir/x", "a/file"}}})
	c.carry(p)
	want := store.Conflict{Path: "a/b/dir/x", Why: `its directory was replaced by something else; "other/dir/x" stays`}
	if !slices.Contains(p.Conflicts, want) || tr.Files["other/dir/x"] == nil {
		t.Errorf("listed %v, want %v; after undo:\n%s", p.Conflicts, want, show(tr.Clone()))
	}
}

// A step that moves a directory contains the number of files that move with it, including those
// that somebody else has made there since.
func TestMoveOfDirectoryCountsItsFiles(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.Mkdir("d", storetest.DirMode), tr.Mkdir("d/in", storetest.DirMode), tr.Write("d/in/x", "1\n"), tr.Write("d/y", "1\n"), tr.Write("file", "f\n"))
	c.as("A", "mv", "t1", 10).do(tr.Rename("d", "e"))
	c.as("A", "sh", "t2", 10).do(tr.Exchange("e/in", "file"))
	c.as("B", "sh", "t3", 11).do(tr.Write("e/new", "B\n"))
	below := map[string]int{}
	for _, s := range c.undo(Query{Select: store.Filter{Session: "A"}}).Steps {
		below[s.Do] = s.Below
	}
	if want := map[string]int{store.DoRename: 3, store.DoExchange: 1}; !maps.Equal(below, want) {
		t.Errorf("%v, want %v", below, want)
	}
}

// TestExcludedInDirectoryOfItsOwn: a session makes a directory, and removes something excluded in
// it, as git clone and rm -rf .git do. Nothing is lost, because there was nothing before the
// session. If the session removes something excluded from an older directory, that is lost.
func TestExcludedInDirectoryOfItsOwn(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	gone := func(p store.Path) store.Change {
		x := storetest.Told(store.OpRmdir, p, "", storetest.DirMode)
		x.Class, x.NoContent, x.Actor = ignore.Excluded, "2 files, 9 bytes: excluded from the history", tr.Actor
		return x
	}
	c.as("", "vim", "", 5).do(tr.Mkdir("old", storetest.DirMode))
	before := tr.Clone()
	c.as("A", "git", "t1", 10).do(tr.Mkdir("new", storetest.DirMode), tr.Mkdir("new/sub", storetest.DirMode), tr.Write("new/a", "a\n"),
		gone("new/.git"), gone("new/sub/.git"), gone("old/.git"), tr.Rename("new", "moved"), gone("moved/.git"))
	p := c.undo(Query{Select: store.Filter{Session: "A"}})
	if len(p.Lost) != 1 || p.Lost[0].Path != "old/.git" {
		t.Errorf("lost %+v", p.Lost)
	}
	c.carry(p)
	if now := tr.Clone(); !maps.Equal(now, before) {
		t.Errorf("after undo:\n%swant\n%s", show(now), show(before))
	}
}

// TestLeavesDirectoryWhole: a directory that must stay, such as a repository, stays with everything
// in it, even if the undo of a rename gives it another name. Files that the session moved into it
// are moved back. A file that should get the directory's name stays where it is.
func TestLeavesDirectoryWhole(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.Mkdir("d", storetest.DirMode), tr.Write("d/k", "k\n"), tr.Write("f", "f\n"), tr.Write("x", "x\n"))
	c.as("A", "git", "t1", 10).do(tr.Rename("x", "y"), tr.Mkdir("x", storetest.DirMode), tr.Mkdir("x/sub", storetest.DirMode), tr.Write("x/sub/q", "q\n"),
		tr.Mkdir("new", storetest.DirMode), tr.Mkdir("d/in", storetest.DirMode), tr.Write("d/in/q", "1\n"), tr.Write("d/in/q", "2\n"), tr.Rename("f", "d/in/f"), tr.Rename("d", "new/e"))
	p, err := Planner{Store: c.s, Whole: func(dir store.Path) string {
		if dir == "x" || dir == "new/e/in" {
			return "it is a repository"
		}
		return ""
	}}.Undo(Query{Select: store.Filter{Session: "A"}})
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, x := range p.Conflicts {
		named = append(named, string(x.Path)+": "+x.Why)
	}
	if want := []string{"d/in: it is a repository", "x: it is a repository", `y: it cannot return to "x"`}; !slices.Equal(named, want) {
		t.Errorf("named %q, want %q", named, want)
	}
	c.carry(p)
	for name, want := range map[string]string{"x/sub/q": "q\n", "d/in/q": "2\n", "d/k": "k\n", "f": "f\n", "y": "x\n"} {
		c.want(store.Path(name), want)
	}
	if tr.Files["new"] != nil || tr.Files["d/in/f"] != nil {
		t.Errorf("after undo:\n%s", show(tr.Clone()))
	}
}

// TestLeavesHardLinksInWholeDirectory: of a file with several names in a directory that stays, an
// undo used to remove all names but one. The content of a file that was only linked into the
// directory is undone, because the file has its name elsewhere.
func TestLeavesHardLinksInWholeDirectory(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.Write("f", "f\n"))
	c.as("A", "git", "t1", 10).do(tr.Mkdir("x", storetest.DirMode), tr.Write("x/a", "a\n"), tr.Link("x/a", "x/b"), tr.Link("x/a", "x/c"), tr.Remove("x/a"),
		tr.Write("f", "changed\n"), tr.Link("f", "x/f"))
	p, err := Planner{Store: c.s, Whole: func(dir store.Path) string { return map[store.Path]string{"x": "it is a repository"}[dir] }}.Undo(Query{Select: store.Filter{Session: "A"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Conflicts) != 1 || p.Conflicts[0].Path != "x" {
		t.Errorf("named %v", p.Conflicts)
	}
	c.carry(p)
	for name, want := range map[store.Path]string{"x/b": "a\n", "x/c": "a\n", "x/f": "f\n", "f": "f\n"} {
		c.want(name, want)
	}
}

// Session A moved the directory t, and exchanged the file in it with another directory. An undo of the
// other directory alone used to leave it where it was: the file in it stayed in the way, because it
// returns to t and not to the directory's present name.
func TestUndoOfPathThatWasExchangedIntoAMovedDirectory(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.Mkdir("deep", storetest.DirMode), tr.Write("deep/b", "b\n"), tr.Mkdir("t", storetest.DirMode), tr.Write("t/f", "f\n"))
	c.as("A", "sh", "t1", 10).do(tr.Rename("t", "u"), tr.Exchange("u/f", "deep"))
	d := c.undo(Query{Select: store.Filter{Session: "A"}, In: Names{Paths: []store.Path{"deep"}}})
	if len(d.Conflicts) > 0 {
		t.Errorf("%v", names(d.Conflicts))
	}
	c.carry(d)
	c.want("deep/b", "b\n")
	c.want("t/f", "f\n")
	if got := tr.Paths(func(store.Path, *storetest.File) bool { return true }); !slices.Equal(got, []store.Path{"deep", "deep/b", "t", "t/f", "u"}) {
		t.Errorf("there are %q", got)
	}
}

// A file cannot return to its old path, because a file has taken the name of its directory.
// Nevertheless it used to get another of its former names, which nobody had requested and the undo
// did not report.
func TestUndoOfPathThatCannotReturnChangesNoOtherName(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.Write("b", "b\n"), tr.Mkdir("t", storetest.DirMode), tr.Write("t/c", "c\n"), tr.Link("t/c", "t/d"))
	c.as("A", "sh", "t1", 10).do(tr.Rename("t/c", "t/b"), tr.Remove("t/d"), tr.Write("t/d", "d\n"), tr.Exchange("b", "t"), tr.Write("b/d", "e\n"))
	d := c.undo(Query{Select: store.Filter{Session: "A"}, In: Names{Paths: []store.Path{"b/d"}}})
	if len(d.Conflicts) != 1 || d.Conflicts[0].Path != "t/d" {
		t.Errorf("%v", names(d.Conflicts))
	}
	c.carry(d)
	if got := tr.Paths(func(store.Path, *storetest.File) bool { return true }); !slices.Equal(got, []store.Path{"b", "b/b", "b/d", "t"}) {
		t.Errorf("there are %q", got)
	}
}

// Session A moved a file out of a directory, removed its other name, and renamed the directory. An undo
// of the file alone brought it back to its former path, but its other name into the renamed directory,
// where it made a directory that had never been there.
func TestUndoOfPathBringsBothNamesToTheirFormerPaths(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.Mkdir("d", storetest.DirMode), tr.Mkdir("d/sub", storetest.DirMode), tr.Write("d/a", "a\n"), tr.Link("d/a", "d/sub/b"), tr.Write("d/x", "x\n"))
	c.as("A", "sh", "t1", 10).do(tr.Rename("d/a", "e"), tr.Remove("d/sub/b"), tr.Remove("d/sub"), tr.Rename("d", "f"))
	c.carry(c.undo(Query{Select: store.Filter{Session: "A"}, In: Names{Paths: []store.Path{"d/a"}}}))
	if got := tr.Paths(func(store.Path, *storetest.File) bool { return true }); !slices.Equal(got, []store.Path{"d", "d/a", "d/sub", "d/sub/b", "f", "f/x"}) {
		t.Errorf("there are %q", got)
	}
}

// Session A exchanged a directory with a file, and then a file in it with another directory. That file
// cannot return to its path, so the other directory cannot return either. The undo used to say so
// without the path at which the directory was missing.
func TestUndoNamesThePathToWhichADirectoryCannotReturn(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.Mkdir("d", storetest.DirMode), tr.Write("d/f", "f\n"), tr.Write("g", "g\n"), tr.Mkdir("t", storetest.DirMode), tr.Write("t/c", "c\n"))
	c.as("A", "sh", "t1", 10).do(tr.Exchange("g", "d"), tr.Exchange("g/f", "t"))
	d := c.undo(Query{Select: store.Filter{Session: "A"}, In: Names{Paths: []store.Path{"d/f", "t"}}})
	var named []string
	for _, x := range d.Conflicts {
		named = append(named, string(x.Path)+": "+x.Why)
	}
	if want := []string{`d/f: its directory was replaced by something else; "t" stays`, `g/f: it cannot return to "t"`}; !slices.Equal(named, want) {
		t.Errorf("named %q, want %q", named, want)
	}
}

// Session A moved a directory out of .git, so the history records only that it is new, and moved a
// file out of it. An undo moves the file back, and the directory stays for it. The undo used not to
// report that.
func TestUndoNamesADirectoryThatStaysForWhatWasFoundInIt(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("A", "mv", "t1", 10).do(tr.Mkdir("d", storetest.DirMode))
	found := tr.Write("d/f", "f\n")
	found.Op = store.OpBaseline
	c.as("", "", "", 0).do(found)
	c.as("A", "mv", "t2", 10).do(tr.Rename("d/f", "x"))
	for range 2 {
		d := c.undo(Query{Select: store.Filter{Session: "A"}})
		if len(d.Conflicts) != 1 || d.Conflicts[0].Path != "d" {
			t.Errorf("%v", names(d.Conflicts))
		}
		c.carry(d)
		c.want("d/f", "f\n")
		d, err := Planner{Store: c.s}.Redo("", false, false)
		if err != nil {
			t.Fatal(err)
		}
		c.carry(d)
	}
}

// A restore of a path changes no file that has another path now and did not have this one at the
// moment.
func TestRestoreOfPathLeavesOtherFiles(t *testing.T) {
	for name, s := range map[string]struct {
		before, after func(*storetest.Tree) []store.Change
		path          store.Path
		want          map[store.Path]string
	}{
		"renamed and edited": {
			before: func(tr *storetest.Tree) []store.Change { return []store.Change{tr.Write("a", "1")} },
			after: func(tr *storetest.Tree) []store.Change {
				return []store.Change{tr.Rename("a", "b"), tr.Write("b", "2"), tr.Chmod("b", 0o700)}
			},
			path: "a", want: map[store.Path]string{"a": "1", "b": "2"},
		},
		"only passed through": {
			before: func(tr *storetest.Tree) []store.Change { return []store.Change{tr.Write("a", "1")} },
			after: func(tr *storetest.Tree) []store.Change {
				return []store.Change{tr.Rename("a", "b"), tr.Write("b", "2"), tr.Rename("b", "c")}
			},
			path: "b", want: map[store.Path]string{"c": "2"},
		},
		"made in a directory that moved on": {
			before: func(tr *storetest.Tree) []store.Change { return []store.Change{tr.Write("a", "1")} },
			after: func(tr *storetest.Tree) []store.Change {
				return []store.Change{tr.Mkdir("d", storetest.DirMode), tr.Write("d/f", "2"), tr.Rename("d", "e")}
			},
			path: "d", want: map[store.Path]string{"a": "1", "e/f": "2"},
		},
	} {
		c := newScene(t)
		c.as("", "sh", "", 5).do(s.before(c.tr)...)
		seq := c.s.Seq()
		c.do(s.after(c.tr)...)
		p, err := Planner{Store: c.s}.Restore([]store.Path{s.path}, seq)
		if err != nil || len(p.Conflicts)+len(p.Lost) > 0 {
			t.Fatal(name, err, p)
		}
		c.carry(p)
		for path, text := range s.want {
			if f := c.tr.Files[path]; f == nil || f.Data != text || path == "b" && f.Mode&0o7777 != 0o700 {
				t.Errorf("%s: %q is %+v, want %q", name, path, f, text)
			}
		}
	}
}

// A restore of a directory that was renamed since also removes what was made in it under its new
// name. It used to leave that without a word.
func TestRestoreOfRenamedDirectoryRemovesNewFiles(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "sh", "", 5).do(tr.Mkdir("d", storetest.DirMode), tr.Mkdir("d/sub", storetest.DirMode), tr.Write("d/f", "1\n"))
	seq, then := c.s.Seq(), tr.Shape()
	c.do(tr.Rename("d", "e"), tr.Rename("e/sub", "sub"), tr.Write("e/new", "2\n"), tr.Write("sub/new", "3\n"))
	p, err := Planner{Store: c.s}.Restore([]store.Path{"d"}, seq)
	if err != nil {
		t.Fatal(err)
	}
	c.carry(p)
	if now := tr.Shape(); !maps.Equal(now, then) {
		t.Errorf("after the restore:\n%s", shape(now))
	}
}

// A directory was removed and made again. If the new one has to stay, because of a file that could
// not be restored later or because somebody else made it, the files return into it. A plan used to
// remove their present versions and to bring none of them back. Later it still did so if a directory in
// the new one had to stay too.
func TestFilesReturnIntoSuccessorOfTheirDirectory(t *testing.T) {
	for _, by := range []string{"A", "B"} {
		for _, kind := range []string{"undo", "restore"} {
			for _, large := range []store.Path{"d/huge", "d/sub/huge", "d/sub/sub/huge"} {
				filesReturnIntoSuccessor(t, by, kind, large)
			}
		}
	}
}

func filesReturnIntoSuccessor(t *testing.T, by, kind string, large store.Path) {
	c := newScene(t)
	tr := c.tr
	dirs := []store.Path{"d", "d/sub", "d/sub/sub"}
	for _, dir := range dirs {
		c.as("", "sh", "", 5).do(tr.Mkdir(dir, storetest.DirMode))
	}
	c.do(tr.Write("d/f", "1\n"), tr.Write("d/sub/g", "2\n"), tr.Write("d/sub/sub/h", "3\n"))
	seq := c.s.Seq()
	c.as("A", "rm", "t1", 10).do(tr.Remove("d/f"), tr.Remove("d/sub/g"), tr.Remove("d/sub/sub/h"), tr.Remove("d/sub/sub"), tr.Remove("d/sub"), tr.Remove("d"))
	c.as(by, "sh", "t2", 11)
	for _, dir := range dirs {
		if large.Inside(dir) {
			c.do(tr.Mkdir(dir, unix.S_IFDIR|0o700))
		}
	}
	huge := tr.Write(large, "huge\n")
	huge.HasContent, huge.Content, huge.NoContent, huge.Stat.Size = false, nil, "too large", 40<<20
	c.do(huge)
	if by == "A" {
		c.do(tr.Write("d/f", "4\n"))
	}
	was := tr.Shape()
	p := (*Draft)(nil)
	if kind == "undo" {
		p = c.undo(Query{Select: store.Filter{Session: "A"}})
	} else {
		var err error
		p, err = Planner{Store: c.s}.Restore([]store.Path{"d"}, seq)
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(p.Conflicts) == 0 {
		t.Errorf("%s, by %s, %s: nothing is named", kind, by, large)
	}
	c.carry(p)
	for path, text := range map[store.Path]string{large: "huge\n", "d/f": "1\n", "d/sub/g": "2\n", "d/sub/sub/h": "3\n"} {
		if f := tr.Files[path]; f == nil || f.Data != text {
			t.Errorf("%s, by %s, %s: %s is %+v, want %q", kind, by, large, path, f, text)
		}
	}
	redo, err := Planner{Store: c.s}.Redo(p.ID, false, false)
	if err != nil {
		t.Fatal(err)
	}
	c.carry(redo)
	if now := tr.Shape(); !maps.Equal(now, was) {
		t.Errorf("%s, by %s, %s: after the redo:\n%s", kind, by, large, shape(now))
	}
}

// A file that an undo returned into the successor of its directory is still the same file. It used to
// count as a new one, so an undo of an earlier change of it left it as it was. The log did not say that the
// removal was reversed, and after a redo it did.
func TestFileInSuccessorOfItsDirectoryIsTheSame(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "sh", "", 5).do(tr.Mkdir("e", storetest.DirMode), tr.Mkdir("d", storetest.DirMode), tr.Write("d/f", "1\n"))
	c.as("A", "vim", "t1", 10).do(tr.Write("d/f", "2\n"))
	written := c.s.Seq()
	c.as("B", "rm", "t2", 11).do(tr.Remove("d/f"))
	removed := c.s.Seq()
	c.do(tr.Remove("d"))
	c.as("", "sh", "", 5).do(tr.Rename("e", "d"))
	returned := func(d *Draft) (out []store.Return) {
		for _, r := range d.Returns {
			if r.Path == "d/f" && r.Kind == store.CellEntry {
				out = append(out, r)
			}
		}
		return out
	}
	d := c.undo(Query{Select: store.Filter{Session: "B"}})
	if r := returned(d); len(r) != 1 || r[0].Was != removed || r[0].Back == 0 || r[0].Back > written || r[0].Made {
		t.Errorf("the undo returns %+v", r)
	}
	c.carry(d)
	c.want("d/f", "2\n")
	redo, err := Planner{Store: c.s}.Redo(d.ID, false, false)
	if err != nil {
		t.Fatal(err)
	}
	if r := returned(redo); len(r) != 1 || r[0].Back != removed {
		t.Errorf("the redo returns %+v", r)
	}
	d = c.undo(Query{Select: store.Filter{Session: "A"}})
	if len(d.Conflicts) > 0 {
		t.Error(names(d.Conflicts))
	}
	c.carry(d)
	c.want("d/f", "1\n")
}

// A directory that an undo leaves because others use it is reported. An undo of a move out of .git used
// to report it only until the move was redone, and an undo of mkdir never. The undo of the last action
// nevertheless goes on to the action before it, because nothing else can be done about the directory.
func TestUndoNamesADirectoryThatOthersUse(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("A", "sh", "t1", 10).do(tr.Write("a", "1\n"))
	c.as("A", "sh", "t2", 20).do(tr.Mkdir("d", storetest.DirMode), tr.Mkdir("d/e", storetest.DirMode), tr.Write("d/f", "1\n"))
	c.as("B", "vim", "t3", 11).do(tr.Write("d/e/g", "2\n"))
	for range 2 {
		d := c.undo(Query{Select: store.Filter{ToolCall: "t2"}})
		if named := names(d.Conflicts); !slices.Equal(named, []string{"d/e: the directory holds other files"}) {
			t.Errorf("named %q", named)
		}
		c.carry(d)
		if again := names(c.undo(Query{Select: store.Filter{ToolCall: "t2"}}).Conflicts); !slices.Equal(again, names(d.Conflicts)) {
			t.Errorf("named again %q", again)
		}
		d, err := Planner{Store: c.s}.Redo(d.ID, false, false)
		if err != nil {
			t.Fatal(err)
		}
		c.carry(d)
	}
	for range 2 {
		c.carry(c.undo(Query{Select: store.Filter{Session: "A"}, Last: true}))
	}
	if tr.Files["a"] != nil || tr.Files["d/f"] != nil {
		t.Errorf("after two undos of the last action:\n%s", show(tr.Clone()))
	}
	for range 2 {
		d, err := Planner{Store: c.s}.Redo("", false, false)
		if err != nil {
			t.Fatal(err)
		}
		c.carry(d)
	}
	c.want("a", "1\n")
	c.want("d/f", "1\n")
}

// Session A renamed a directory, and B moved the directory above its former name into it. An undo cannot
// put the directory there, so it stays. It used to report the impossible path, too.
func TestUndoKeepsADirectoryOutOfItself(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("B", "sh", "t1", 11).do(tr.Mkdir("b", storetest.DirMode))
	c.as("A", "sh", "t2", 10).do(tr.Mkdir("b/a", storetest.DirMode), tr.Rename("b/a", "c"))
	c.as("B", "mv", "t3", 11).do(tr.Rename("b", "c/b"))
	d := c.undo(Query{Select: store.Filter{Session: "A"}})
	if named := names(d.Conflicts); len(d.Steps) > 0 || !slices.Equal(named, []string{"c: the directory holds other files"}) {
		t.Errorf("steps %+v, named %q", d.Steps, named)
	}
}
