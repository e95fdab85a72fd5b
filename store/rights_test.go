package store

import (
	"path"
	"testing"

	"cachebro/store/attrs"

	"golang.org/x/sys/unix"
)

// An ordinary user cannot put anything into a directory without write and
// search permission: one that comes back so is closed last, and one that was
// closed is opened first. Every step is checked against the mode that the
// directory around it has by then.
func TestDirectoriesAreOpenWhileAPlanWorksInThem(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "user", "", 5).do(tr.mkdir("shut", dirMode), tr.write("shut/a", "a"), tr.mkdir("shut/in", dirMode), tr.write("shut/in/b", "b"),
		tr.chmod("shut/in", unix.S_IFDIR|0o500), tr.chmod("shut", unix.S_IFDIR|0o555), tr.mkdir("free", dirMode), tr.write("free/c", "c"),
		tr.mkdir("kept", dirMode), tr.write("kept/e", "e"), tr.chmod("kept", unix.S_IFDIR|0o500))
	modes := map[Path]uint32{}
	err := c.s.Live("", func(v Version) error {
		if isDir(v.Stat) {
			modes[v.Path] = v.Stat.Mode & 0o777
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	c.as("A", "sh", "", 6).do(tr.chmod("shut", unix.S_IFDIR|0o755), tr.chmod("shut/in", unix.S_IFDIR|0o755), tr.remove("shut/in/b"), tr.remove("shut/in"), tr.remove("shut/a"), tr.remove("shut"),
		tr.remove("free/c"), tr.write("free/d", "d"), tr.chmod("free", unix.S_IFDIR|0o555),
		tr.chmod("kept", unix.S_IFDIR|0o700), tr.remove("kept/e"), tr.chmod("kept", unix.S_IFDIR|0o500))
	before := map[Path]uint32{"free": 0o555, "kept": 0o500}
	for _, plan := range []func() *Plan{
		func() *Plan {
			p := c.undo(UndoQuery{Select: Filter{Session: "A"}})
			c.carry(p)
			return p
		},
		func() *Plan {
			p, err := c.s.PlanRedo("", false, nil)
			if err != nil {
				t.Fatal(err)
			}
			c.carry(p)
			return p
		},
	} {
		p := plan()
		if len(p.Conflicts)+len(p.Lost) > 0 || len(p.Steps) == 0 {
			t.Fatalf("%d steps, conflicts %+v, lost %+v", len(p.Steps), p.Conflicts, p.Lost)
		}
		now := before
		for _, st := range p.Steps {
			if dir := Path(path.Dir(string(st.Path))); dir != "." && now[dir]&inAndOut != inAndOut {
				t.Errorf("%s %q while its directory has mode %o", st.Do, st.Path, now[dir])
			}
			switch st.Do {
			case DoMkdir, DoChmod:
				now[st.Path] = st.Mode & 0o777
			case DoRmdir:
				delete(now, st.Path)
			}
		}
		if p.Kind == PlanUndo {
			for dir, mode := range modes {
				if now[dir] != mode {
					t.Errorf("%q is left with mode %o, want %o", dir, now[dir], mode)
				}
			}
		} else if len(now) != 2 || now["free"] != 0o555 || now["kept"] != 0o500 {
			t.Errorf("after redo: %v", now)
		}
		before = now
	}
}

// A file of which its owner took the right to read away cannot be captured
// before it is removed, but nobody has written to it since it was: undo brings
// it back. One that was written to is lost, and said to be.
func TestUnreadableFilesAreAsTheyWereCaptured(t *testing.T) {
	for name, c := range map[string]struct {
		change func(st *Stat)
		lost   bool
	}{
		"unwritten":       {func(*Stat) {}, false},
		"written":         {func(st *Stat) { st.Mtime++ }, true},
		"another file":    {func(st *Stat) { st.Ino++ }, true},
		"a moment before": {func(st *Stat) { st.Mtime += 1e9 }, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := fresh(t)
			found := file(OpBaseline, "f", "text")
			found.Stat.Mtime = found.Time - 1e9
			shut := found
			shut.Op, shut.HasContent, shut.Content = OpChmod, false, nil
			shut.Stat.Mode = unix.S_IFREG
			before := shut
			before.Op, before.NoContent = OpBaseline, "gap: not captured"
			c.change(&before.Stat)
			gone := before
			gone.Op, gone.NoContent, gone.LastName = OpUnlink, "", true
			if name == "a moment before" { // nothing tells it from a write in the same step
				found.Stat.Mtime, shut.Stat.Mtime = before.Stat.Mtime, before.Stat.Mtime
			}
			apply(t, s, found, shut, before, gone)
			p, err := s.PlanRestore(nil, s.Seq()-1, nil)
			if err != nil || len(p.Lost) > 0 != c.lost || len(p.Steps) > 0 == c.lost {
				t.Errorf("%v, lost %+v, %d steps", err, p.Lost, len(p.Steps))
			}
		})
	}
}

// A change of the owner or of the attributes alone is a version, found as well as
// told of; what nobody asked about is none, and is not forgotten.
func TestOwnerAndAttributesAreVersions(t *testing.T) {
	some := string(attrs.Of(map[string]string{"user.a": "b"}))
	for _, told := range []Op{OpChmod, OpSeen} {
		s := fresh(t)
		c := file(OpBaseline, "f", "text")
		c.Stat.Ino, c.Stat.Attrs = 7, string(attrs.None)
		apply(t, s, c)
		for i, change := range []func(*Stat){func(st *Stat) { st.UID = 5 }, func(st *Stat) { st.GID = 6 }, func(st *Stat) { st.Attrs = some }, func(st *Stat) { st.Ctime++ }, func(st *Stat) { st.Attrs = "" }} {
			change(&c.Stat)
			if c.Op = told; told == OpChmod {
				c.HasContent, c.Content = false, nil
			}
			apply(t, s, c)
			if seq, want := s.Seq(), uint64(min(i, 2)+2); seq != want {
				t.Errorf("%d, change %d: %d versions, want %d", told, i, seq, want)
			}
		}
		if v, _, err := s.Current("f"); err != nil || v.Stat.UID != 5 || v.Stat.GID != 6 || v.Stat.Attrs != some || v.Stat.Ctime == 0 {
			t.Errorf("%+v, %v", v, err)
		}
	}
}
