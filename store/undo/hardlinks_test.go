package undo

import (
	"maps"
	"testing"

	"cachebro/scripts/testkit/storetest"
	"cachebro/store"
	"cachebro/store/leaf/ignore"
)

// linkedScene returns a scene in which a and b are two names of one file. They were made before any
// actor did anything.
func linkedScene(t *testing.T) *scene {
	c := newScene(t)
	return c.as("", "vim", "", 5).do(c.tr.Write("a", "old\n"), c.tr.Link("a", "b"))
}

// The undo of a write through one name of a file applies to all names of the file, and they remain
// names of one file.
func TestUndoOfLinkedFile(t *testing.T) {
	for _, paths := range [][]store.Path{nil, {"a"}} {
		c := linkedScene(t)
		c.as("A", "sh", "t1", 10).do(c.tr.Write("a", "new\n"), c.tr.Chmod("b", 0o755))
		c.carry(c.undo(Query{Select: store.Filter{Session: "A"}, In: Names{Paths: paths}}))
		c.want("a", "old\n")
		c.want("b", "old\n")
		if n := c.tr.Files["a"]; n != c.tr.Files["b"] || n.Mode != storetest.FileMode {
			t.Fatalf("a is %+v, b %+v", n, c.tr.Files["b"])
		}
		redo, err := Planner{Store: c.s}.Redo("", false, false)
		if err != nil || len(redo.Conflicts) > 0 {
			t.Fatal(err, redo)
		}
		c.carry(redo)
		c.want("b", "new\n")
		if p := c.undo(Query{Select: store.Filter{Session: "A"}}); len(p.Conflicts) > 0 || len(p.Steps) == 0 {
			t.Fatalf("a second time: %+v", p)
		}
	}
}

// A file with set-id bits is written anew, and all its names become names of the new file. Without
// a mount, the last of these names is exchanged with the new file, so the old file has a temporary
// name for a moment. Redo used to take the content under that name for the file's own, and did
// nothing.
func TestRedoOfLinkedFileWithSetID(t *testing.T) {
	for _, act := range []func(c *scene){
		func(c *scene) { c.do(c.tr.Write("b", "new\n")) },
		func(c *scene) { c.do(c.tr.Chmod("b", 0o755)) },
	} {
		c := newScene(t)
		c.tr.Bare = true
		c.as("", "vim", "", 5).do(c.tr.Write("a", "old\n"), c.tr.Link("a", "b"), c.tr.Chmod("a", 0o2755))
		before := c.tr.Clone()
		c.as("A", "sh", "t1", 10)
		act(c)
		after := c.tr.Clone()
		c.carry(c.undo(Query{Select: store.Filter{Session: "A"}}))
		for range 2 {
			if now := c.tr.Clone(); !maps.Equal(now, before) || !c.together("a", "b") {
				t.Fatalf("undo: %s", show(now))
			}
			redo, err := Planner{Store: c.s}.Redo("", false, false)
			if err != nil {
				t.Fatal(err)
			}
			c.carry(redo)
			if now := c.tr.Clone(); !maps.Equal(now, after) || !c.together("a", "b") {
				t.Fatalf("redo: %s", show(now))
			}
			c.carry(c.undo(Query{Select: store.Filter{Session: "A"}}))
		}
	}
}

// A file was removed while it still had a name in .git. If the same process then makes a file under
// the removed name, that is another file. Whether the two counted as one file used to depend on the
// first version that was requested. So an undo and its redo read the history differently, and the
// redo did not restore the new content.
func TestRedoOfFileMadeBesideItsLink(t *testing.T) {
	c := newScene(t)
	c.tr.Bare = true
	c.as("", "vim", "", 5).do(c.tr.Write("a", ""), c.tr.Write("e", "e\n"))
	c.as("A", "sh", "t1", 10).do(c.tr.Remove("e"))
	link := c.tr.Link("a", ".git/x")
	link.Class = ignore.Excluded
	c.do(link, c.tr.Remove("a"))
	delete(c.tr.Files, ".git/x")
	c.do(c.tr.Write("a", "new\n"))
	for range 2 {
		c.carry(c.undo(Query{Select: store.Filter{Session: "A"}}))
		c.want("a", "")
		redo, err := Planner{Store: c.s}.Redo("", false, false)
		if err != nil {
			t.Fatal(err)
		}
		c.carry(redo)
		c.want("a", "new\n")
	}
}

// Somebody else has given a file a further name. An undo leaves this name, and restores the file's
// content and mode under all its names. The undo used to leave such a file alone.
func TestUndoOfFileLinkedByAnother(t *testing.T) {
	c := newScene(t)
	c.as("", "vim", "", 5).do(c.tr.Write("a", "old\n"), c.tr.Write("m", "old\n"))
	c.as("A", "sh", "t1", 10).do(c.tr.Write("a", "new\n"), c.tr.Chmod("m", 0o755))
	c.as("B", "ln", "", 11).do(c.tr.Link("a", "theirs"), c.tr.Link("m", "theirs-too"))
	p := c.undo(Query{Select: store.Filter{Session: "A"}})
	if len(p.Conflicts)+len(p.Lost) > 0 {
		t.Errorf("named %+v %+v", p.Conflicts, p.Lost)
	}
	c.carry(p)
	c.want("a", "old\n")
	if m := c.tr.Files["m"].Mode; m != storetest.FileMode || !c.together("a", "theirs") || !c.together("m", "theirs-too") {
		t.Errorf("mode %o, files %+v", m, c.tr.Files)
	}
}

// A restore of one name of a file restores the file's content and mode, even if they were changed
// under another name. In that case the restore used to say "nothing to do".
func TestRestoreOfOneName(t *testing.T) {
	for _, name := range []store.Path{"a", "d/b"} {
		c := newScene(t)
		c.as("", "vim", "", 5).do(c.tr.Write("a", "old\n"), c.tr.Mkdir("d", storetest.DirMode), c.tr.Link("a", "d/b"))
		then := c.s.Seq()
		c.as("A", "sh", "t1", 10).do(c.tr.Write("a", "new\n"), c.tr.Chmod("a", 0o755))
		p, err := Planner{Store: c.s}.Restore([]store.Path{name}, then)
		if err != nil {
			t.Fatal(err)
		}
		c.carry(p)
		c.want("a", "old\n")
		c.want("d/b", "old\n")
		if !c.together("a", "d/b") || c.tr.Files["a"].Mode != storetest.FileMode {
			t.Errorf("restore of %s: files %+v", name, c.tr.Files)
		}
	}
}

// ln -f makes a name refer to another file. An undo must not write to that other file.
func TestUndoOfLinkOverFile(t *testing.T) {
	for _, plan := range []func(s *store.Store) (*Draft, error){
		func(s *store.Store) (*Draft, error) {
			return Planner{Store: s}.Undo(Query{Select: store.Filter{Session: "A"}})
		},
		func(s *store.Store) (*Draft, error) { return Planner{Store: s}.Revert("b", 1, 0) },
		func(s *store.Store) (*Draft, error) { return Planner{Store: s}.Restore([]store.Path{"b"}, 2) },
	} {
		c := newScene(t)
		c.as("", "vim", "", 5).do(c.tr.Write("a", "a\n"), c.tr.Write("b", "b\n"))
		c.as("A", "ln", "t1", 10).do(c.tr.Link("a", "b.tmp"), c.tr.Rename("b.tmp", "b"))
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
	c.as("A", "sh", "t1", 10).do(c.tr.Write("b", "new\n"))
	p, err := Planner{Store: c.s}.Revert("a", 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	c.carry(p)
	c.want("a", "old\n")
	c.want("b", "old\n")
	if p := c.undo(Query{Select: store.Filter{Plan: p.ID}}); len(p.Conflicts) > 0 || len(p.Steps) == 0 {
		t.Fatalf("undo of the revert: %+v", p)
	}
}

// A revert goes back one version more each time, whichever name of the file it is given. By another
// name than the last one it used to go forward again.
func TestRevertThroughEveryName(t *testing.T) {
	c := linkedScene(t)
	for _, text := range []string{"2", "3", "4"} {
		c.as("A", "sh", "t1", 10).do(c.tr.Write("a", text))
	}
	for i, want := range []string{"3", "2", "old\n"} {
		p, err := Planner{Store: c.s}.Revert([]store.Path{"a", "b"}[i%2], 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		c.carry(p)
		c.want("a", want)
		c.want("b", want)
	}
}

// together reports whether the paths are names of one file.
func (c *scene) together(paths ...store.Path) bool {
	for _, p := range paths {
		if c.tr.Files[p] == nil || c.tr.Files[p] != c.tr.Files[paths[0]] {
			return false
		}
	}
	return true
}

// An undo makes paths names of one file again if they were removed, or replaced by files of their
// own. A redo separates them again.
func TestUndoJoinsNamesAgain(t *testing.T) {
	for name, part := range map[string]func(c *scene){
		"one removed":  func(c *scene) { c.do(c.tr.Remove("b")) },
		"both removed": func(c *scene) { c.do(c.tr.Remove("b"), c.tr.Remove("a")) },
		"one replaced": func(c *scene) { c.do(c.tr.Write("b.tmp", "new\n"), c.tr.Rename("b.tmp", "b")) },
		"both replaced": func(c *scene) {
			c.do(c.tr.Write("b.tmp", "new\n"), c.tr.Rename("b.tmp", "b"), c.tr.Write("a.tmp", "newer\n"), c.tr.Rename("a.tmp", "a"))
		},
		"replaced by the same content": func(c *scene) { c.do(c.tr.Write("b.tmp", "old\n"), c.tr.Rename("b.tmp", "b")) },
		"one removed, one written":     func(c *scene) { c.do(c.tr.Remove("b"), c.tr.Write("a", "new\n")) },
		"a third one":                  func(c *scene) { c.do(c.tr.Link("b", "third"), c.tr.Remove("a"), c.tr.Remove("b")) },
		"moved and replaced": func(c *scene) {
			c.do(c.tr.Rename("a", "moved"), c.tr.Write("a", "another\n"), c.tr.Remove("b"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := linkedScene(t)
			c.as("A", "sh", "t1", 10)
			part(c)
			after := c.tr.Whole()
			for range 3 {
				p := c.undo(Query{Select: store.Filter{Session: "A"}})
				if len(p.Lost)+len(p.Conflicts) > 0 {
					t.Fatalf("named for nothing: %+v %+v", p.Lost, p.Conflicts)
				}
				c.carry(p)
				c.want("a", "old\n")
				if !c.together("a", "b") || len(c.tr.Files) != 2 {
					t.Fatalf("the names are apart: %+v", c.tr.Files)
				}
				redo, err := Planner{Store: c.s}.Redo("", false, false)
				if err != nil || len(redo.Lost)+len(redo.Conflicts) > 0 {
					t.Fatal(err, redo)
				}
				c.carry(redo)
				now := c.tr.Whole()
				for p, n := range after {
					if now[p].Data != n.Data || c.tr.Links(c.tr.Files[p]) != uint32(namesIn(after, n.Ino)) {
						t.Fatalf("redo: %s is %+v with %d names, want %+v with %d", p, now[p], c.tr.Links(c.tr.Files[p]), n, namesIn(after, n.Ino))
					}
				}
			}
		})
	}
}

func namesIn(files map[store.Path]storetest.File, ino uint64) (n int) {
	for _, f := range files {
		if f.Ino == ino {
			n++
		}
	}
	return n
}

// A file may also have had an unknown name, for example in .git. If an undo restores such a file as
// a separate file, it lists the file as lost. If the file is still the same one, it does not.
func TestUndoNamesLostLinks(t *testing.T) {
	replace := func(c *scene) { c.do(c.tr.Write("a.tmp", "new\n"), c.tr.Rename("a.tmp", "a")) }
	for name, tc := range map[string]struct {
		do   func(c *scene)
		lost int
	}{
		"replaced":              {replace, 1},
		"removed":               {func(c *scene) { c.do(c.tr.Remove("a")) }, 1},
		"written":               {func(c *scene) { c.do(c.tr.Write("a", "new\n")) }, 0},
		"moved":                 {func(c *scene) { c.do(c.tr.Rename("a", "b")) }, 0},
		"a link made, replaced": {func(c *scene) { c.do(c.tr.Link("a", "b")); replace(c) }, 0}, // b is still the same file
		"a link made and removed, replaced": {func(c *scene) {
			c.do(c.tr.Link("a", "b"), c.tr.Remove("b"))
			replace(c)
		}, 1},
	} {
		for _, stranger := range []bool{true, false} {
			c := newScene(t)
			c.as("", "vim", "", 5)
			first := c.tr.Write("a", "old\n")
			if stranger {
				c.tr.Files[".git/x"] = c.tr.Files["a"]
				first = c.tr.Change(store.OpCreate, "a", "", c.tr.Files["a"])
				first.HasContent, first.Content = true, []byte("old\n")
			}
			c.do(first)
			c.as("A", "sh", "t1", 10)
			tc.do(c)
			p := c.undo(Query{Select: store.Filter{Session: "A"}})
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

// A file lost its last known name, was changed by an unknown one, and a scan found it under a third.
// The undo makes the first name a name of that file again. It used not to report that the content is
// another one.
func TestUndoNamesChangesByUnknownNames(t *testing.T) {
	for _, changes := range []bool{true, false} {
		c := newScene(t)
		tr := c.tr
		c.as("", "vim", "", 5)
		first := tr.Write("a", "old\n")
		tr.Files[".git/x"] = tr.Files["a"]
		first.Stat.Nlink = 2
		c.do(first)
		c.as("A", "sh", "t1", 10).do(tr.Remove("a"))
		file := tr.Files[".git/x"]
		if changes {
			file.Data, file.Mtime = "new\n", file.Mtime+1e9
		}
		tr.Files["b"] = file
		delete(tr.Files, ".git/x")
		found := c.as("", "", "", 0).tr.Change(store.OpBaseline, "b", "", file)
		found.HasContent, found.Content = true, []byte(file.Data)
		c.do(found)
		c.as("A", "sh", "t1", 10).do(tr.Rename("b", "c"))
		p := c.undo(Query{Select: store.Filter{Session: "A"}})
		if named := len(p.Lost) == 1 && p.Lost[0].Path == "a"; named != changes || len(p.Conflicts) > 0 {
			t.Errorf("changed %v: lost %+v, conflicts %+v", changes, p.Lost, p.Conflicts)
		}
		c.carry(p)
		c.want("a", file.Data)
		c.want("b", file.Data)
	}
}

// Session A moved a file, and B then moved it elsewhere. The undo of A's move used to make the old
// name a hard link to the file, so that a later write through one name changed the file under both.
// Now the file stays where B put it, and the undo lists it as a conflict.
func TestUndoOfWhatWasMovedOn(t *testing.T) {
	c := newScene(t)
	c.as("", "vim", "", 5).do(c.tr.Write("x", "0\n"))
	c.as("A", "mv", "t1", 10).do(c.tr.Rename("x", "y"))
	c.as("B", "mv", "t2", 11).do(c.tr.Rename("y", "z"))
	p := c.undo(Query{Select: store.Filter{Session: "A"}})
	if len(p.Steps) > 0 || len(p.Conflicts) != 1 || p.Conflicts[0].Path != "x" || p.Conflicts[0].Why != "it is elsewhere now" {
		t.Errorf("steps %+v, conflicts %+v", p.Steps, p.Conflicts)
	}
}

// A process removed a file, and then gave its name to another file, which keeps its own name in an
// unrecorded place. The undo used to assume that the process had made the removed file again. So it
// wrote the former content into the other file, under both of its names.
func TestUndoOfFileThatCameFromNowhere(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "sh", "", 5).do(tr.Write("x", "1\n"))
	came := tr.Write("hidden", "2\n")
	for range 100 { // some time passes
		c.as("", "sh", "", 5).do(tr.Write("other", "3\n"))
	}
	c.as("A", "mv", "t1", 10).do(tr.Remove("x"))
	tr.Files["x"] = tr.Files["hidden"]
	now := tr.Change(store.OpCreate, "x", "", tr.Files["x"])
	came.Path, came.Time, came.Actor, came.Stat = now.Path, now.Time, now.Actor, now.Stat
	c.do(came)
	c.carry(c.undo(Query{Select: store.Filter{Session: "A"}}))
	c.want("x", "1\n")
	c.want("hidden", "2\n")
}

// A directory came to a tracked name with an unseen name of a known file in it, and the name was removed
// before a scan had recorded it. The undo restored everything else in the directory, and did not report
// this name.
func TestUndoOfTheRemovalOfANameThatWasNotSeen(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.Mkdir("d", storetest.DirMode), tr.Write("x", "x\n"), tr.Link("x", "y"))
	_ = tr.Link("x", "d/e")
	c.as("A", "rm", "t1", 10).do(tr.Remove("d/e"), tr.Remove("d"))
	c.carry(c.undo(Query{Select: store.Filter{Session: "A"}}))
	c.want("d/e", "x\n")
	if !c.together("x", "d/e") {
		t.Error("they are two files")
	}
}

// A file was changed under one of its names, which was removed since, and the undo of its other name is
// requested. Nobody had recorded that name before. The undo used to leave the change.
func TestUndoOfANameFoundLater(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.Write("a", "old\n"))
	found := tr.Link("a", "b")
	c.as("A", "sh", "t1", 10).do(tr.Write("x", "x\n"), tr.Chmod("a", 0o700), tr.Remove("a"))
	found.Op, found.Actor, found.Path, found.Path2 = store.OpBaseline, store.Actor{}, "b", ""
	found.Stat.Nlink, found.Stat.Mode = 1, tr.Files["b"].Mode
	c.do(found)
	c.carry(c.undo(Query{Select: store.Filter{Session: "A"}, In: Names{Paths: []store.Path{"b", "x"}}}))
	if f := tr.Files["b"]; f == nil || f.Mode != storetest.FileMode {
		t.Errorf("b is %+v", f)
	}
}
