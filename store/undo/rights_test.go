package undo

import (
	"path"
	"testing"

	"cachebro/scripts/testkit/storetest"
	"cachebro/store"
	"cachebro/store/leaf/attrs"

	"golang.org/x/sys/unix"
)

// An ordinary user cannot open a directory without read permission, and cannot put anything into
// one without write and search permission. So a plan sets the final mode of a directory last if it
// lacks these permissions, and adds missing permissions first. Every step is checked against the
// mode that its directory has at that time.
func TestDirectoriesAreOpenWhileAPlanWorksInThem(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "user", "", 5).do(tr.Mkdir("shut", storetest.DirMode), tr.Write("shut/a", "a"), tr.Mkdir("shut/in", storetest.DirMode), tr.Write("shut/in/b", "b"),
		tr.Chmod("shut/in", unix.S_IFDIR), tr.Chmod("shut", unix.S_IFDIR|0o555), tr.Mkdir("free", storetest.DirMode), tr.Write("free/c", "c"),
		tr.Mkdir("kept", storetest.DirMode), tr.Write("kept/e", "e"), tr.Chmod("kept", unix.S_IFDIR|0o500))
	modes := map[store.Path]uint32{}
	err := c.s.Live("", func(v store.Version) error {
		if stateOf(v).dir() {
			modes[v.Path] = v.Stat.Mode & 0o777
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	c.as("A", "sh", "", 6).do(tr.Chmod("shut", unix.S_IFDIR|0o755), tr.Chmod("shut/in", unix.S_IFDIR|0o755), tr.Remove("shut/in/b"), tr.Remove("shut/in"), tr.Remove("shut/a"), tr.Remove("shut"),
		tr.Remove("free/c"), tr.Write("free/d", "d"), tr.Chmod("free", unix.S_IFDIR|0o555),
		tr.Chmod("kept", unix.S_IFDIR|0o700), tr.Remove("kept/e"), tr.Chmod("kept", unix.S_IFDIR|0o500))
	before := map[store.Path]uint32{"free": 0o555, "kept": 0o500}
	for _, plan := range []func() *Draft{
		func() *Draft {
			p := c.undo(Query{Select: store.Filter{Session: "A"}})
			c.carry(p)
			return p
		},
		func() *Draft {
			p, err := Planner{Store: c.s}.Redo("", false, false)
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
			if dir := store.Path(path.Dir(string(st.Path))); dir != "." && now[dir]&0o700 != 0o700 {
				t.Errorf("%s %q while its directory has mode %o", st.Do, st.Path, now[dir])
			}
			switch st.Do {
			case store.DoMkdir, store.DoChmod:
				now[st.Path] = st.Mode & 0o777
			case store.DoRmdir:
				delete(now, st.Path)
			}
		}
		if p.Kind == store.PlanUndo {
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

// A file that its owner made unreadable cannot be captured before it is removed. If nobody wrote to
// it since it was captured, an undo restores it. Otherwise it is lost, and is reported as lost.
func TestUnreadableFilesAreAsTheyWereCaptured(t *testing.T) {
	for name, c := range map[string]struct {
		change func(st *store.Stat)
		lost   bool
	}{
		"unwritten":       {func(*store.Stat) {}, false},
		"written":         {func(st *store.Stat) { st.Mtime++ }, true},
		"another file":    {func(st *store.Stat) { st.Ino++ }, true},
		"a moment before": {func(st *store.Stat) { st.Mtime += 1e9 }, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := storetest.Fresh(t)
			found := storetest.Closed(store.OpBaseline, "f", "text")
			found.Stat.Mtime = found.Time - 1e9
			shut := found
			shut.Op, shut.HasContent, shut.Content = store.OpChmod, false, nil
			shut.Stat.Mode = unix.S_IFREG
			before := shut
			before.Op, before.NoContent = store.OpBaseline, "gap: not captured"
			c.change(&before.Stat)
			gone := before
			gone.Op, gone.NoContent, gone.LastName = store.OpUnlink, "", true
			if name == "a moment before" { // a write in the same clock step would look the same
				found.Stat.Mtime, shut.Stat.Mtime = before.Stat.Mtime, before.Stat.Mtime
			}
			storetest.Apply(t, s, found, shut, before, gone)
			p, err := Planner{Store: s}.Restore(nil, s.Seq()-1)
			if err != nil || len(p.Lost) > 0 != c.lost || len(p.Steps) > 0 == c.lost {
				t.Errorf("%v, lost %+v, %d steps", err, p.Lost, len(p.Steps))
			}
		})
	}
}

// A change of only the owner or the attributes is a version, whether the mount reported it or a
// scan found it. A report without attributes makes no version, and the earlier attributes stay
// known.
func TestOwnerAndAttributesAreVersions(t *testing.T) {
	some := string(attrs.Of(map[string]string{"user.a": "b"}))
	for _, told := range []store.Op{store.OpChmod, store.OpSeen} {
		s := storetest.Fresh(t)
		c := storetest.Closed(store.OpBaseline, "f", "text")
		c.Stat.Ino, c.Stat.Attrs = 7, string(attrs.None)
		storetest.Apply(t, s, c)
		for i, change := range []func(*store.Stat){func(st *store.Stat) { st.UID = 5 }, func(st *store.Stat) { st.GID = 6 }, func(st *store.Stat) { st.Attrs = some }, func(st *store.Stat) { st.Ctime++ }, func(st *store.Stat) { st.Attrs = "" }} {
			change(&c.Stat)
			if c.Op = told; told == store.OpChmod {
				c.HasContent, c.Content = false, nil
			}
			storetest.Apply(t, s, c)
			if seq, want := s.Seq(), uint64(min(i, 2)+2); seq != want {
				t.Errorf("%d, change %d: %d versions, want %d", told, i, seq, want)
			}
		}
		if v, _, err := s.Current("f"); err != nil || v.Stat.UID != 5 || v.Stat.GID != 6 || v.Stat.Attrs != some || v.Stat.Ctime == 0 {
			t.Errorf("%+v, %v", v, err)
		}
	}
}

// Rights that a plan could not restore are not given by a later plan. A program was restored
// without its set-id bit and then deleted. The next undo used to restore it with the bit.
func TestNoPlanGivesRightsThatWereGone(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "user", "", 5).do(tr.Write("h", "c"), tr.Chmod("h", 0o4755))
	c.as("A", "sh", "", 6).do(tr.Write("h", "w"))
	d := c.undo(Query{Select: store.Filter{Session: "A"}})
	c.carry(d)
	tr.Plan = d.ID
	c.do(tr.Chmod("h", 0o755)) // the client is not permitted to set the bit
	tr.Plan = ""
	c.as("B", "rm", "", 7).do(tr.Remove("h"))
	c.carry(c.undo(Query{Select: store.Filter{Session: "B"}}))
	if got := tr.Files["h"]; got == nil || got.Mode != unix.S_IFREG|0o755 || got.Data != "c" {
		t.Errorf("it comes back as %+v", got)
	}
}
