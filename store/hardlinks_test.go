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

// together are the paths that are names of one file, sorted.
func (c *scene) together(paths ...Path) bool {
	for _, p := range paths {
		if c.tr.files[p] == nil || c.tr.files[p] != c.tr.files[paths[0]] {
			return false
		}
	}
	return true
}

// Names of one file that were removed, or replaced by files of their own, become
// names of one file again, and apart again by redo.
func TestUndoJoinsNamesAgain(t *testing.T) {
	for name, part := range map[string]func(c *scene){
		"one removed":  func(c *scene) { c.do(c.tr.remove("b")) },
		"both removed": func(c *scene) { c.do(c.tr.remove("b"), c.tr.remove("a")) },
		"one replaced": func(c *scene) { c.do(c.tr.write("b.tmp", "new\n"), c.tr.rename("b.tmp", "b")) },
		"both replaced": func(c *scene) {
			c.do(c.tr.write("b.tmp", "new\n"), c.tr.rename("b.tmp", "b"), c.tr.write("a.tmp", "newer\n"), c.tr.rename("a.tmp", "a"))
		},
		"replaced by the same content": func(c *scene) { c.do(c.tr.write("b.tmp", "old\n"), c.tr.rename("b.tmp", "b")) },
		"one removed, one written":     func(c *scene) { c.do(c.tr.remove("b"), c.tr.write("a", "new\n")) },
		"a third one":                  func(c *scene) { c.do(c.tr.link("b", "third"), c.tr.remove("a"), c.tr.remove("b")) },
		"moved and replaced": func(c *scene) {
			c.do(c.tr.rename("a", "moved"), c.tr.write("a", "another\n"), c.tr.remove("b"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := linkedScene(t)
			c.as("A", "sh", "t1", 10)
			part(c)
			after := c.tr.whole()
			for range 3 {
				p := c.undo(UndoQuery{Select: Filter{Session: "A"}})
				if len(p.Lost)+len(p.Conflicts) > 0 {
					t.Fatalf("named for nothing: %+v %+v", p.Lost, p.Conflicts)
				}
				c.carry(p)
				c.want("a", "old\n")
				if !c.together("a", "b") || len(c.tr.files) != 2 {
					t.Fatalf("the names are apart: %+v", c.tr.files)
				}
				redo, err := c.s.PlanRedo("", false, nil)
				if err != nil || len(redo.Lost)+len(redo.Conflicts) > 0 {
					t.Fatal(err, redo)
				}
				c.carry(redo)
				now := c.tr.whole()
				for p, n := range after {
					if now[p].data != n.data || c.tr.links(c.tr.files[p]) != uint32(namesIn(after, n.ino)) {
						t.Fatalf("redo: %s is %+v with %d names, want %+v with %d", p, now[p], c.tr.links(c.tr.files[p]), n, namesIn(after, n.ino))
					}
				}
			}
		})
	}
}

func namesIn(files map[Path]inodeModel, ino uint64) (n int) {
	for _, f := range files {
		if f.ino == ino {
			n++
		}
	}
	return n
}

// A file that also had a name of which nothing is known, in .git say, and cannot
// become that file again, is named. One that still is that file is not.
func TestUndoNamesLostLinks(t *testing.T) {
	replace := func(c *scene) { c.do(c.tr.write("a.tmp", "new\n"), c.tr.rename("a.tmp", "a")) }
	for name, tc := range map[string]struct {
		do   func(c *scene)
		lost int
	}{
		"replaced":              {replace, 1},
		"removed":               {func(c *scene) { c.do(c.tr.remove("a")) }, 1},
		"written":               {func(c *scene) { c.do(c.tr.write("a", "new\n")) }, 0},
		"moved":                 {func(c *scene) { c.do(c.tr.rename("a", "b")) }, 0},
		"a link made, replaced": {func(c *scene) { c.do(c.tr.link("a", "b")); replace(c) }, 0}, // b still is that file
		"a link made and removed, replaced": {func(c *scene) {
			c.do(c.tr.link("a", "b"), c.tr.remove("b"))
			replace(c)
		}, 1},
	} {
		for _, stranger := range []bool{true, false} {
			c := newScene(t)
			c.as("", "vim", "", 5)
			first := c.tr.write("a", "old\n")
			if stranger {
				c.tr.files[".git/x"] = c.tr.files["a"]
				first = c.tr.change(OpCreate, "a", "", c.tr.files["a"])
				first.HasContent, first.Content = true, []byte("old\n")
			}
			c.do(first)
			c.as("A", "sh", "t1", 10)
			tc.do(c)
			p := c.undo(UndoQuery{Select: Filter{Session: "A"}})
			want := tc.lost
			if !stranger {
				want = 0
			}
			if len(p.Lost) != want || len(p.Conflicts) > 0 {
				t.Fatalf("%s, another name %v: %d lost, want %d: %+v %+v", name, stranger, len(p.Lost), want, p.Lost, p.Conflicts)
			}
			c.carry(p)
			c.want("a", "old\n")
		}
	}
}
