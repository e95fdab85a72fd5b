package store

import "testing"

// links are two names of one file, made before anybody acted.
func linkedScene(t *testing.T) *scene {
	c := newScene(t)
	return c.as("", "vim", "", 5).do(c.tr.write("a", "old\n"), c.tr.link("a", "b"))
}

// What one actor wrote through one name is taken back for all of them, and they
// stay names of one file.
func TestUndoOfLinkedFile(t *testing.T) {
	for _, globs := range [][]string{nil, {"a"}} {
		c := linkedScene(t)
		c.as("A", "sh", "t1", 10).do(c.tr.write("a", "new\n"), c.tr.chmod("b", 0o755))
		c.carry(c.undo(UndoQuery{Select: Filter{Session: "A"}, Globs: globs}))
		c.want("a", "old\n")
		c.want("b", "old\n")
		if n := c.tr.files["a"]; n != c.tr.files["b"] || n.mode != fileMode {
			t.Fatalf("a is %+v, b %+v", n, c.tr.files["b"])
		}
		redo, err := c.s.PlanRedo("", false, nil)
		if err != nil || len(redo.Conflicts) > 0 {
			t.Fatal(err, redo)
		}
		c.carry(redo)
		c.want("b", "new\n")
		if p := c.undo(UndoQuery{Select: Filter{Session: "A"}}); len(p.Conflicts) > 0 || len(p.Steps) == 0 {
			t.Fatalf("a second time: %+v", p)
		}
	}
}

// A file that somebody else has given another name since is left alone: it has
// become theirs too. By force, the undone name gets a file of its own.
func TestUndoOfFileLinkedByAnother(t *testing.T) {
	c := newScene(t)
	c.as("", "vim", "", 5).do(c.tr.write("a", "old\n"), c.tr.write("m", "old\n"))
	c.as("A", "sh", "t1", 10).do(c.tr.write("a", "new\n"), c.tr.chmod("m", 0o755))
	c.as("B", "ln", "", 11).do(c.tr.link("a", "theirs"), c.tr.link("m", "theirs-too"))
	p := c.undo(UndoQuery{Select: Filter{Session: "A"}})
	if len(p.Steps) > 0 || len(p.Conflicts) != 2 || p.Conflicts[0].Actor.Comm != "ln" {
		t.Fatalf("%+v", p)
	}
	c.carry(c.undo(UndoQuery{Select: Filter{Session: "A"}, Force: true}))
	c.want("a", "old\n")
	c.want("theirs", "new\n")
	if m, their := c.tr.files["m"].mode, c.tr.files["theirs-too"].mode; m != fileMode || their&0o777 != 0o755 {
		t.Fatalf("mode %o, theirs %o", m, their)
	}
}

// ln -f puts another file in a name's place: taking that back must not write
// into that other file.
func TestUndoOfLinkOverFile(t *testing.T) {
	for _, plan := range []func(s *Store) (*Plan, error){
		func(s *Store) (*Plan, error) { return s.PlanUndo(UndoQuery{Select: Filter{Session: "A"}}) },
		func(s *Store) (*Plan, error) { return s.PlanRevert("b", 1, 0, nil) },
		func(s *Store) (*Plan, error) { return s.PlanRestore([]Path{"b"}, 2, nil) },
	} {
		c := newScene(t)
		c.as("", "vim", "", 5).do(c.tr.write("a", "a\n"), c.tr.write("b", "b\n"))
		c.as("A", "ln", "t1", 10).do(c.tr.link("a", "b.tmp"), c.tr.rename("b.tmp", "b"))
		p, err := plan(c.s)
		if err != nil || len(p.Steps) != 1 {
			t.Fatal(err, p)
		}
		c.carry(p)
		c.want("a", "a\n")
		c.want("b", "b\n")
	}
}

// Revert of one name brings the file back, under all its names.
func TestRevertOfLinkedFile(t *testing.T) {
	c := linkedScene(t)
	c.as("A", "sh", "t1", 10).do(c.tr.write("b", "new\n"))
	p, err := c.s.PlanRevert("a", 1, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.carry(p)
	c.want("a", "old\n")
	c.want("b", "old\n")
	if p := c.undo(UndoQuery{Select: Filter{Plan: p.ID}}); len(p.Conflicts) > 0 || len(p.Steps) == 0 {
		t.Fatalf("undo of the revert: %+v", p)
	}
}
