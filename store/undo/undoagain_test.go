package undo

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"cachebro/scripts/testkit/storetest"
	"cachebro/store"
	"cachebro/store/keep"

	"golang.org/x/sys/unix"
)

// Two undos are followed by two redos. The later undo and the first redo have made newer versions
// than the plan that the second redo reverses. So the second redo used to leave all paths alone as
// "changed since".
func TestRedoOfTwoUndos(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.Write("a", "0\n"), tr.Write("gone", "g\n"), tr.Symlink("link", "a"))
	zero := tr.Clone()
	c.as("A", "sh", "t1", 10).do(tr.Write("a", "1\n"), tr.Write("made", "m\n"), tr.Chmod("gone", 0o755))
	first := tr.Clone()
	c.as("A", "sh", "t2", 11).do(tr.Write("a", "2\n"), tr.Write("made", "n\n"), tr.Remove("gone"), tr.Remove("link"))
	second := tr.Clone()
	is := func(what string, want map[store.Path]storetest.File) {
		t.Helper()
		if now := tr.Clone(); !maps.Equal(now, want) {
			t.Fatalf("%s:\n%swant\n%s", what, show(now), show(want))
		}
	}
	redo := func() {
		t.Helper()
		p, err := Planner{Store: c.s}.Redo("", false, false)
		if err != nil || len(p.Conflicts)+len(p.Lost) > 0 {
			t.Fatal(err, p.Conflicts, p.Lost)
		}
		c.carry(p)
	}
	for range 2 {
		c.carry(c.undo(Query{Select: store.Filter{ToolCall: "t2"}}))
		is("the first undo", first)
		c.carry(c.undo(Query{Select: store.Filter{Session: "A"}}))
		is("the second undo", zero)
		redo()
		is("the first redo", first)
		redo()
		is("the second redo", second)
	}
}

// A plan that a person looked at and rejected must have no effect. The next redo used to say that
// there was nothing to do.
func TestRedoAfterRefusedPlans(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.Write("a", "0\n"))
	c.as("A", "sh", "t1", 10).do(tr.Write("made", "m\n"))
	c.as("A", "sh", "t2", 50).do(tr.Write("a", "1\n"))
	refuse := func(d *Draft) {
		t.Helper()
		if len(d.Steps) == 0 {
			t.Fatal("there is nothing to refuse")
		}
		if err := errors.Join(c.s.Journal.Begin(t.Context(), &d.Plan, d.Made), c.s.Journal.Finish(d.ID, nil)); err != nil {
			t.Fatal(err)
		}
	}
	redo := func() *Draft {
		t.Helper()
		d, err := Planner{Store: c.s}.Redo("", false, false)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	c.carry(c.undo(Query{Select: store.Filter{ToolCall: "t1"}}))
	refuse(c.undo(Query{Select: store.Filter{ToolCall: "t2"}}))
	refuse(redo())
	c.carry(redo())
	c.want("made", "m\n")
	c.want("a", "1\n")
}

// An undo right after a redo used to undo what had been done between the first undo and the redo,
// instead of what had been redone.
func TestUndoAfterRedo(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.Write("a", "0\n"), tr.Write("gone", "g\n"))
	zero := tr.Clone()
	c.as("A", "sh", "t1", 10).do(tr.Write("a", "1\n"), tr.Remove("gone"), tr.Write("made", "m\n"))
	c.carry(c.undo(Query{Last: true}))
	c.as("B", "sh", "t2", 11).do(tr.Write("other", "o\n"))
	is := func(what string, want map[store.Path]storetest.File) {
		t.Helper()
		if now := tr.Clone(); !maps.Equal(now, want) {
			t.Fatalf("%s:\n%swant\n%s", what, show(now), show(want))
		}
	}
	for range 2 {
		p, err := Planner{Store: c.s}.Redo("", false, false)
		if err != nil {
			t.Fatal(err)
		}
		c.carry(p)
		if p := c.undo(Query{Last: true, Select: store.Filter{Session: "B"}}); p.Newest.Path != "other" {
			t.Fatalf("the last action of B is %+v", p.Newest)
		}
		c.carry(c.undo(Query{Last: true}))
		other := tr.Clone()
		delete(other, "other")
		if tr.Files["other"] == nil || !maps.Equal(other, zero) {
			t.Fatalf("after the undo of what was redone:\n%s", show(tr.Clone()))
		}
	}
	c.carry(c.undo(Query{Last: true}))
	is("after one more undo", zero)
}

// An ignored file is recorded only just before it is removed, and not even then if it has another
// name. Nevertheless, an undo used to say that everything was done.
func TestUndoNamesWhatItCannotBringBack(t *testing.T) {
	c := newScene(t)
	c.as("", "vim", "", 5).do(c.tr.Write("other", "x\n"))
	c.as("A", "rm", "t1", 10)
	gone := c.tr.Change(store.OpUnlink, "ign", "", &storetest.File{Ino: 77, Mode: storetest.FileMode, Data: "i\n"})
	gone.Class, gone.LastName, gone.Stat.Nlink = 1, false, 2
	c.do(gone)
	if p := c.undo(Query{Select: store.Filter{Session: "A"}}); len(p.Lost) != 1 || p.Lost[0].Path != "ign" {
		t.Fatalf("%+v", p)
	}
}

// A link that had never been recorded was renamed. An undo of the rename used to delete the link,
// because its target was not known, and the redo could not make it again.
func TestRenameOfUnknownLink(t *testing.T) {
	for _, target := range []string{"there", ""} {
		c := newScene(t)
		c.as("", "vim", "", 5).do(c.tr.Write("other", "x\n"))
		c.as("A", "mv", "t1", 10)
		l := c.tr.Symlink("old", target) // not reported
		if l.Stat.Mode&unix.S_IFMT != unix.S_IFLNK {
			t.Fatal(l)
		}
		before := c.tr.Clone()
		mv := c.tr.Rename("old", "new")
		mv.Target = target
		c.do(mv)
		after := c.tr.Clone()
		c.carry(c.undo(Query{Select: store.Filter{Session: "A"}}))
		if now := c.tr.Clone(); !maps.Equal(now, before) {
			t.Fatalf("after undo:\n%swant\n%s", show(now), show(before))
		}
		p, err := Planner{Store: c.s}.Redo("", false, false)
		if err != nil {
			t.Fatal(err)
		}
		c.carry(p)
		if now := c.tr.Clone(); !maps.Equal(now, after) {
			t.Fatalf("after redo:\n%swant\n%s", show(now), show(after))
		}
	}
}

// A scan may find a file that somebody has just made, and report it before the creation is
// reported. The file is nevertheless new, and an undo removes it. A restore to the moment of the
// scan does not.
func TestUndoOfFileFoundBeforeItsMaking(t *testing.T) {
	c := newScene(t)
	c.as("", "vim", "", 5).do(c.tr.Write("a", "a\n"))
	c.as("A", "sh", "t1", 10)
	made := c.tr.Write("new", "new\n")
	if made.Op != store.OpCreate {
		t.Fatalf("%+v", made)
	}
	found := made
	found.Op, found.Actor = store.OpBaseline, store.Actor{}
	c.do(found)
	then := c.s.Seq()
	c.do(made)
	if p, err := (Planner{Store: c.s}).Restore(nil, then); err != nil || len(p.Steps) > 0 {
		t.Fatalf("it was there when the scan found it: %v, %+v", err, p.Steps)
	}
	p := c.undo(Query{Select: store.Filter{Session: "A"}})
	if len(p.Steps) != 1 || p.Steps[0].Do != store.DoDelete || p.Steps[0].Path != "new" {
		t.Fatalf("%+v", p)
	}
	c.carry(p)
	redo, err := Planner{Store: c.s}.Redo("", false, false)
	if err != nil {
		t.Fatal(err)
	}
	c.carry(redo)
	c.want("new", "new\n")
	if p := c.undo(Query{Select: store.Filter{Session: "A"}}); len(p.Steps) != 1 || p.Steps[0].Do != store.DoDelete {
		t.Fatalf("a second time: %+v", p)
	}
}

// Session A made a directory, B put something into it, and A moved it. An undo of A's changes used
// to move the directory back and then remove it with everything in it.
func TestUndoBringsTheDirectoryOfOthers(t *testing.T) {
	for name, moves := range map[string]func(tr *storetest.Tree) []store.Change{
		"renamed":       func(tr *storetest.Tree) []store.Change { return []store.Change{tr.Rename("d", "e")} },
		"exchanged":     func(tr *storetest.Tree) []store.Change { return []store.Change{tr.Exchange("d", "f")} },
		"below another": func(tr *storetest.Tree) []store.Change { return []store.Change{tr.Exchange("top", "f")} },
		"mode was taken": func(tr *storetest.Tree) []store.Change {
			return []store.Change{tr.Chmod("d", 0o600), tr.Rename("d", "e")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newScene(t)
			tr := c.tr
			c.as("", "vim", "", 5).do(tr.Write("f", "f\n"), tr.Mkdir("top", 0o40755))
			c.as("A", "sh", "t1", 10).do(tr.Mkdir("d", 0o40755), tr.Mkdir("top/d", 0o40755), tr.Write("d/own", "o\n"))
			c.as("B", "sh", "t2", 11).do(tr.Write("d/b", "b\n"), tr.Write("top/d/b", "b\n"))
			c.as("A", "sh", "t1", 10).do(moves(tr)...)
			before := tr.Clone()
			undo := Query{Select: store.Filter{Session: "A"}}
			c.carry(c.undo(undo))
			after := tr.Clone()
			for p, want := range map[store.Path]string{"d/b": "b\n", "top/d/b": "b\n", "f": "f\n"} {
				if n, ok := after[p]; !ok || n.Data != want {
					t.Errorf("%s is not there:\n%s", p, show(after))
				}
			}
			for _, p := range []store.Path{"d/own", "e"} {
				if _, ok := after[p]; ok {
					t.Errorf("%s is there:\n%s", p, show(after))
				}
			}
			redo, err := Planner{Store: c.s}.Redo("", false, false)
			if err != nil || len(redo.Conflicts)+len(redo.Lost) > 0 {
				t.Fatal(err, redo.Conflicts, redo.Lost)
			}
			c.carry(redo)
			if now := tr.Clone(); !maps.Equal(now, before) {
				t.Errorf("after redo:\n%swant\n%s", show(now), show(before))
			}
			c.carry(c.undo(undo))
			if now := tr.Clone(); !maps.Equal(now, after) {
				t.Errorf("after the second undo:\n%swant\n%s", show(now), show(after))
			}
		})
	}
}

// A sed -i that finds nothing replaces the file by one with the same content. Earlier changes of
// the file could then no longer be undone, because they counted as "changed since by sed".
func TestUndoOfWhatWasWrittenAgain(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.Write("a", "0\n"))
	zero := tr.Clone()
	c.as("A", "sh", "t1", 10).do(tr.Write("a", "1\n"))
	c.as("B", "sed", "t2", 11).do(tr.Write("sedtmp", "1\n"), tr.Rename("sedtmp", "a"))
	p := c.undo(Query{Select: store.Filter{ToolCall: "t1"}})
	if len(p.Conflicts)+len(p.Lost) > 0 {
		t.Fatal(p.Conflicts, p.Lost)
	}
	c.carry(p)
	if now := tr.Clone(); now["a"].Data != zero["a"].Data {
		t.Errorf("a is %q", now["a"].Data)
	}
}

// If a session changed a file and then wrote the old content again, an undo used to keep the new
// time of the file, so everything that depends on the file was built again. Now the undo restores
// the old time. The redo, which used to do nothing, restores the new one.
func TestUndoGivesTimesBack(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.Write("a", "0\n"), tr.Write("b", "0\n"))
	old := tr.Files["a"].Mtime
	c.as("A", "sh", "t1", 10).do(tr.Write("b", "1\n"))
	c.carry(c.undo(Query{Select: store.Filter{ToolCall: "t1"}}))
	c.as("A", "git", "t2", 11).do(tr.Write("a", "1\n"), tr.Remove("a"), tr.Write("a", "0\n"))
	made := tr.Files["a"].Mtime
	if made == old {
		t.Fatal("the time has not changed")
	}
	c.carry(c.undo(Query{Select: store.Filter{ToolCall: "t2"}}))
	if got := tr.Files["a"]; got.Mtime != old || got.Data != "0\n" {
		t.Errorf("%+v, want the time %d", got, old)
	}
	if d := c.undo(Query{Select: store.Filter{ToolCall: "t2"}}); len(d.Steps) > 0 {
		t.Errorf("undone twice: %+v", d.Steps)
	}
	redo := func() {
		d, err := Planner{Store: c.s}.Redo("", false, false)
		if err != nil {
			t.Fatal(err)
		}
		c.carry(d)
	}
	redo()
	if got := tr.Files["a"].Mtime; got != made {
		t.Errorf("after redo the time is %d, want %d", got, made)
	}
	c.carry(c.undo(Query{Select: store.Filter{ToolCall: "t2"}}))
	if got := tr.Files["a"].Mtime; got != old {
		t.Errorf("undone again, the time is %d, want %d", got, old)
	}
	redo()
	redo()
	if got := tr.Files["a"]; got.Mtime != made || got.Data != "0\n" {
		t.Errorf("%+v, want the time %d", got, made)
	}
	if got := tr.Files["b"].Data; got != "1\n" {
		t.Errorf("the redo left b as %q", got)
	}
}

// An undo restored contents, and then the versions that first had them were pruned. The next undo
// used to look for the contents in those versions and reported them as lost, although the versions
// made by the first undo had them.
func TestUndoOfWhatAnUndoBroughtBack(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.Write("a", "0\n"), tr.Write("gone", "g\n"))
	zero := tr.Clone()
	for _, session := range []store.SessionID{"A", "B"} {
		c.as(string(session), "sh", "", 10).do(tr.Write("a", "of "+string(session)+"\n"), tr.Remove("gone"))
		p := c.undo(Query{Select: store.Filter{Session: session}})
		if len(p.Lost) > 0 {
			t.Fatalf("undo of %s: lost %v", session, p.Lost)
		}
		c.carry(p)
		if now := tr.Clone(); !maps.Equal(now, zero) {
			t.Fatalf("undo of %s:\n%swant\n%s", session, show(now), show(zero))
		}
		if r, err := keep.New(c.s, nil, nil).Prune(context.Background(), 1, ""); err != nil || r.Blobs == 0 {
			t.Fatalf("pruned %d contents: %v", r.Blobs, err)
		}
	}
	// The same holds for a revert by one step.
	c.as("", "vim", "", 5).do(tr.Write("a", "3\n"))
	p, err := Planner{Store: c.s}.Revert("a", 1, 0)
	if err != nil || len(p.Lost) > 0 || len(p.Steps) == 0 {
		t.Fatal(err, p)
	}
}

// Somebody has already written the content that a redo should restore. The redo used to give the
// file the old time, so the undone plan counted as redone.
func TestRedoLeavesTheTimeOfOthers(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.Write("a", "0\n"))
	c.as("A", "sh", "t1", 10).do(tr.Write("a", "1\n"))
	undone := c.undo(Query{Select: store.Filter{Session: "A"}})
	c.carry(undone)
	c.as("B", "sh", "t2", 11).do(tr.Write("a", "1\n"))
	d, err := Planner{Store: c.s}.Redo(undone.ID, false, false)
	if err != nil || len(d.Steps) > 0 {
		t.Errorf("%v: %+v", err, d.Steps)
	}
}

// An undo makes a directory writable before it removes it, and somebody else writes a file after
// the undo was planned. After a redo, an undo of an earlier change of the directory's mode used to
// do nothing.
func TestUndoOfModeOfDirectoryBroughtBack(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("A", "sh", "t1", 10).do(tr.Mkdir("d", storetest.DirMode))
	c.as("B", "sh", "t2", 11).do(tr.Write("d/f", "1\n"), tr.Chmod("d", 0o664))
	p := c.undo(Query{})
	c.as("C", "vim", "t3", 12).do(tr.Write("c", "2\n"))
	c.carry(p)
	d, err := Planner{Store: c.s}.Redo("", false, false)
	if err != nil {
		t.Fatal(err)
	}
	c.carry(d)
	c.want("d/f", "1\n")
	c.carry(c.undo(Query{Select: store.Filter{Session: "B"}}))
	if n := tr.Files["d"]; n == nil || n.Mode != storetest.DirMode {
		t.Errorf("the directory is %+v", n)
	}
}

// The last version of a redo was recorded only while the next undo was being carried out, as under
// the net. What the redo changed without a version then counted as newer than that undo.
func TestUndoAfterALateVersionOfARedo(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.Mkdir("src", storetest.DirMode), tr.Write("x", "x\n"))
	c.as("A", "sh", "t1", 10).do(tr.Chmod("src", 0o700), tr.Write("x", "y\n"))
	first := tr.Clone()
	c.as("A", "sh", "t2", 11).do(tr.Remove("src"))
	redo := func() *Draft {
		t.Helper()
		d, err := Planner{Store: c.s}.Redo("", false, false)
		if err != nil {
			t.Fatal(err)
		}
		c.carry(d)
		return d
	}
	c.carry(c.undo(Query{Select: store.Filter{Session: "A"}}))
	plan := redo().ID
	d := c.undo(Query{Select: store.Filter{Session: "A"}})
	if err := c.s.Journal.Begin(t.Context(), &d.Plan, d.Made); err != nil {
		t.Fatal(err)
	}
	c.as("", "cachebro", "", 99)
	tr.Plan = plan
	late := tr.Chmod("x", 0o644)
	tr.Plan = ""
	cs, err := tr.Perform(c.s, &d.Plan)
	if err != nil {
		t.Fatal(err)
	}
	late.Op = store.OpWrite
	c.do(slices.Insert(cs, 1, late)...) // after the directory was made
	if err := finish(c.s, d); err != nil {
		t.Fatal(err)
	}
	redo()
	c.carry(c.undo(Query{Select: store.Filter{ToolCall: "t2"}}))
	if now := tr.Clone(); !maps.Equal(now, first) {
		t.Fatalf("the tree is\n%swant\n%s", show(now), show(first))
	}
}
