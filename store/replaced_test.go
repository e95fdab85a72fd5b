package store_test

import (
	"testing"

	"cachebro/scripts/testkit/storetest"
	"cachebro/store"
)

func unscanned() store.Options {
	o := storetest.Options()
	o.Unscanned = true
	return o
}

// If a directory was replaced while nobody watched, its files are recorded as removed.
func TestReplacedUnseen(t *testing.T) {
	s := storetest.Open(t, t.TempDir(), unscanned())
	x := storetest.NewTree()
	storetest.Apply(t, s, x.Mkdir("d", storetest.DirMode), x.Mkdir("d/sub", storetest.DirMode), x.Write("d/sub/s", "s\n"),
		x.Write("d/x", "1\n"), x.Mkdir("to", storetest.DirMode), x.Write("to/y", "2\n"))
	last, _, err := s.Current("to/y")
	if err != nil {
		t.Fatal(err)
	}
	other := store.Stat{Dev: 1, Ino: 1 << 40, Birth: last.Time + 1, Mode: storetest.DirMode, Nlink: 2}
	at := last.Time + 10
	storetest.Apply(t, s, store.Change{Op: store.OpRename, Path: "d", Path2: "to", Stat: other, Time: at, Actor: store.Actor{PID: 7, Session: "A"}})
	live := map[store.Path]bool{}
	if err := s.Live("", func(v store.Version) error { live[v.Path] = true; return nil }); err != nil {
		t.Fatal(err)
	}
	if len(live) != 1 || !live["to"] {
		t.Errorf("after the rename these are there: %v; want only the directory", live)
	}
	for _, p := range []store.Path{"d/sub/s", "d/sub", "d/x", "to/y"} {
		v, _, err := s.Current(p)
		if err != nil || !v.Deleted() || v.Actor.Session != "" || v.Actor.Comm != "outside" {
			t.Errorf("%s: %+v, %v; want it removed by somebody outside", p, v, err)
		}
	}
}

// If the new directory is renamed, the files already recorded in it are kept.
func TestReplacedUnseenKeepsWhatIsNew(t *testing.T) {
	s := storetest.Open(t, t.TempDir(), unscanned())
	x := storetest.NewTree()
	storetest.Apply(t, s, x.Mkdir("d", storetest.DirMode), x.Write("d/old", "1\n"))
	last, _, err := s.Current("d/old")
	if err != nil {
		t.Fatal(err)
	}
	made := last.Time + 1
	found := storetest.Closed(store.OpWrite, "d/new", "2\n")
	found.Time = made + 1
	other := store.Stat{Dev: 1, Ino: 1 << 40, Birth: made, Mode: storetest.DirMode, Nlink: 2}
	storetest.Apply(t, s, found, store.Change{Op: store.OpRename, Path: "d", Path2: "e", Stat: other, Time: made + 2})
	for p, want := range map[store.Path]bool{"e/new": true, "e/old": false, "d/new": false, "d/old": false} {
		v, known, err := s.Current(p)
		if err != nil || (known && !v.Deleted()) != want {
			t.Errorf("%s is there: %v, %v; want %v", p, known && !v.Deleted(), err, want)
		}
	}
}

// A file was created again with the same content while nobody watched. When it is removed, the
// version before the removal gets the new file's modification time.
func TestRemovedFileHasItsLastTime(t *testing.T) {
	s := storetest.Open(t, t.TempDir(), storetest.Options())
	storetest.Apply(t, s, storetest.Closed(store.OpWrite, "f", "1\n"))
	is, _, err := s.Current("f")
	if err != nil {
		t.Fatal(err)
	}
	st := is.Stat
	st.Dev, st.Ino, st.Birth, st.Mtime = 1, 1<<40, is.Time+5, is.Time+5
	storetest.Apply(t, s, store.Change{Op: store.OpUnlink, Path: "f", Stat: st, Time: is.Time + 9, HasContent: true, Content: []byte("1\n"), LastName: true})
	vs, err := s.History("f", false)
	if err != nil || len(vs) != 2 || vs[0].Stat.Mtime != st.Mtime {
		t.Errorf("history %+v, %v; want the version before the removal with the time %d", vs, err, st.Mtime)
	}
}

// If a file or directory is made at a path at which the store knows another one, the other one was
// removed while nobody watched. An undo of the creation used to restore it.
func TestRemovedUnseen(t *testing.T) {
	s := storetest.Open(t, t.TempDir(), storetest.Options())
	x := storetest.NewTree()
	storetest.Apply(t, s, x.Write("f", "1\n"), x.Mkdir("d", storetest.DirMode), x.Write("d/x", "2\n"), x.Mkdir("e", storetest.DirMode))
	last, _, err := s.Current("e")
	if err != nil {
		t.Fatal(err)
	}
	by := store.Actor{PID: 7, Session: "A"}
	stat := func(ino uint64, mode uint32) store.Stat {
		return store.Stat{Dev: 1, Ino: 1<<40 + ino, Birth: last.Time + 1, Mode: mode, Nlink: 1}
	}
	made := storetest.Closed(store.OpCreate, "f", "new\n")
	made.Stat.Dev, made.Stat.Ino, made.Stat.Birth, made.Time, made.Actor = 1, 1<<40, last.Time+1, last.Time+2, by
	storetest.Apply(t, s, made, store.Change{Op: store.OpMkdir, Path: "d", Stat: stat(1, storetest.DirMode), Time: last.Time + 3, Actor: by},
		store.Change{Op: store.OpSymlink, Path: "e", Target: "f", Stat: stat(2, 0o120777), Time: last.Time + 4, Actor: by})
	for _, p := range []store.Path{"f", "d", "e"} {
		v, _, err := s.Current(p)
		if err != nil || v.Actor.Session != "A" || v.Prev == 0 {
			t.Fatalf("%s: %+v, %v", p, v, err)
		}
		if gone, err := s.Version(v.Prev); err != nil || !gone.Deleted() || gone.Actor.Comm != "outside" {
			t.Errorf("%s was not removed by somebody outside: %+v, %v", p, gone, err)
		}
	}
	if v, _, err := s.Current("d/x"); err != nil || !v.Deleted() {
		t.Errorf("d/x: %+v, %v", v, err)
	}
}
