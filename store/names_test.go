package store

import "testing"

// The newest version under each name of a file has the file's present link count, even after names
// have moved from or to places that are not recorded.
func TestNamesAreCounted(t *testing.T) {
	s := fresh(t)
	is := func(c Change, ino uint64, names uint32) Change {
		c.Stat.Dev, c.Stat.Ino, c.Stat.Birth, c.Stat.Nlink = 1, ino, 1, names
		return c
	}
	has := func(p Path, want uint32) {
		t.Helper()
		if v, ok, err := s.Current(p); err != nil || !ok || v.Stat.Nlink != want {
			t.Errorf("%s has %d names, not %d: %v", p, v.Stat.Nlink, want, err)
		}
	}
	apply(t, s, is(file(OpCreate, "a", "a"), 10, 1), is(op(OpLink, "a", "b", fileMode), 10, 2))
	has("a", 2)
	apply(t, s, is(file(OpCreate, "c", "a"), 10, 3)) // a third name of the same file
	has("a", 3)
	has("b", 3)
	gone := is(op(OpUnlink, "a", "", fileMode), 10, 3)
	gone.LastName = true // it was moved to a place that is not recorded
	apply(t, s, gone)
	has("b", 3)
	apply(t, s, is(op(OpUnlink, "b", "", fileMode), 10, 3))
	has("c", 2)
	apply(t, s, is(file(OpCreate, "d", "d"), 11, 1), is(op(OpLink, "d", "e", fileMode), 11, 2))
	apply(t, s, is(file(OpWrite, "d", "a"), 10, 2)) // the file came from a place that is not recorded, and took the name of another file
	has("e", 1)
	has("c", 2)
}

// A write that changes the mode but not the content records the mode under the file's other names
// too.
func TestModeOfOtherNames(t *testing.T) {
	s := fresh(t)
	is := func(c Change, mode uint32) Change {
		c.Stat.Dev, c.Stat.Ino, c.Stat.Birth, c.Stat.Nlink, c.Stat.Mode = 1, 10, 1, 2, mode
		return c
	}
	apply(t, s, is(file(OpCreate, "a", "a"), fileMode), is(op(OpLink, "a", "b", fileMode), fileMode))
	apply(t, s, is(file(OpWrite, "a", "a"), fileMode|0o111))
	if v, ok, err := s.Current("b"); err != nil || !ok || v.Stat.Mode != fileMode|0o111 {
		t.Errorf("the other name has mode %o: %v", v.Stat.Mode, err)
	}
}
