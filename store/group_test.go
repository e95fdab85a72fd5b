package store_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path"
	"reflect"
	"slices"
	"testing"

	"cachebro/scripts/testkit/storetest"
	"cachebro/store"
)

// dirHistory returns a random history in which directories are renamed, exchanged and removed with
// everything in them, and the files in them change in between.
func dirHistory(seed uint64, steps int) (cs []store.Change) {
	rnd := rand.New(rand.NewPCG(seed, 5))
	x := storetest.NewTree()
	dirs := func() []store.Path {
		return x.Paths(func(_ store.Path, f *storetest.File) bool { return f.Mode&0o170000 == 0o040000 })
	}
	some := func(ps []store.Path) store.Path { return ps[rnd.IntN(len(ps))] }
	x.Actor = store.Actor{PID: 7, Comm: "test", Session: "s"}
	cs = append(cs, x.Mkdir("d0", storetest.DirMode))
	for len(cs) < steps {
		x.Actor.Session = store.SessionID(fmt.Sprintf("s%d", rnd.IntN(3)))
		x.Actor.Prompt = fmt.Sprintf("p%d", rnd.IntN(4))
		all := dirs()
		if len(all) == 0 {
			cs = append(cs, x.Mkdir("d0", storetest.DirMode))
			continue
		}
		dir := some(all)
		fresh := store.Path(fmt.Sprintf("d%d", rnd.IntN(12)))
		if rnd.IntN(2) == 0 {
			fresh = dir + "/" + fresh
		}
		switch n := rnd.IntN(20); {
		case n < 2 && x.Files[fresh] == nil:
			cs = append(cs, x.Mkdir(fresh, storetest.DirMode))
		case n < 6 && x.Files[fresh] == nil && !fresh.Inside(dir) && x.Files[store.Path(path.Dir(string(fresh)))] != nil,
			n < 6 && x.Files[fresh] == nil && path.Dir(string(fresh)) == ".":
			for from, to := dir, fresh; !fresh.Inside(dir); from, to = to, from {
				cs = append(cs, x.Rename(from, to))
				if rnd.IntN(3) == 0 {
					break
				}
			}
		case n == 6:
			if other := some(all); !other.Inside(dir) && !dir.Inside(other) {
				cs = append(cs, x.Exchange(dir, other))
			}
		case n == 7 && rnd.IntN(4) == 0: // the directory's subtree disappears without being observed
			for p := range x.Files {
				if p != dir && p.Inside(dir) {
					delete(x.Files, p)
				}
			}
			cs = append(cs, x.Remove(dir))
		case n == 8:
			if files := x.Paths(func(p store.Path, f *storetest.File) bool { return p.Inside(dir) && f.Mode&0o170000 == 0o100000 }); len(files) > 0 {
				cs = append(cs, x.Remove(some(files)))
			}
		case n == 9 && seed%3 == 0:
			if files := x.Paths(func(p store.Path, f *storetest.File) bool { return f.Mode&0o170000 == 0o100000 }); len(files) > 0 {
				if to := dir + "/l"; x.Files[to] == nil {
					cs = append(cs, x.Link(some(files), to))
				}
			}
		default:
			cs = append(cs, x.Write(dir+store.Path(fmt.Sprintf("/f%d", rnd.IntN(9))), fmt.Sprintf("text %d\n", rnd.IntN(30))))
		}
	}
	return cs
}

// answers returns a store's answers to every kind of question about its history.
func answers(t *testing.T, s *store.Store) map[string]any {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	out := map[string]any{}
	all, err := s.Since(0, 1<<20)
	must(err)
	out["since"] = all
	var paths []store.Path
	for _, v := range all {
		paths = append(paths, v.Path)
		one, err := s.Version(v.Seq)
		must(err)
		if !reflect.DeepEqual(one, v) {
			t.Fatalf("version %d alone is\n%+v\nin the log\n%+v", v.Seq, one, v)
		}
	}
	slices.Sort(paths)
	paths = slices.Compact(paths)
	for _, f := range []store.Filter{
		{Limit: 1 << 20}, {Limit: 1 << 20, Oldest: true}, {Session: "s1", Limit: 1 << 20}, {Session: "s2", Oldest: true, Limit: 1 << 20},
		{Prompt: "p1", Limit: 7}, {Path: "d1", Limit: 1 << 20}, {Path: "d2", Oldest: true, Limit: 50},
		{Before: s.Seq() / 2, Limit: 31}, {After: s.Seq() / 3, Oldest: true, Limit: 31}, {Before: s.Seq() / 5, After: s.Seq() / 7, Limit: 1 << 20},
	} {
		vs, more, err := s.Log(f)
		must(err)
		out[fmt.Sprintf("log %+v %v", f, more)] = vs
	}
	must(s.View(func(v *store.View) error {
		var changed []store.Path
		must(v.ChangedAfter(s.Seq()/2, func(p store.Path) { changed = append(changed, p) }))
		out["changed"] = changed
		below := map[store.Path]uint64{}
		for i, p := range paths {
			for _, follow := range []bool{true, false} {
				h, err := v.History(p, follow)
				must(err)
				out[fmt.Sprintf("history %s %v", p, follow)] = h
			}
			below[p] = s.Seq() * uint64(i%5) / 5
			for part := range uint64(6) {
				at, found, err := v.AtSeq(p, s.Seq()*part/5)
				must(err)
				out[fmt.Sprintf("at %s %d %v", p, part, found)] = at
			}
		}
		newest, err := v.NewestBelow(below)
		must(err)
		out["newest"] = newest
		return v.Histories(paths, nil, func(p store.Path, own []*store.Version) error {
			all := []store.Version{}
			for _, o := range own {
				all = append(all, *o)
			}
			out["own "+string(p)] = all
			return nil
		})
	}))
	for _, keep := range []int{1, 3} {
		var old []store.Outdated
		must(s.Superseded(context.Background(), keep, func(o store.Outdated) bool { old = append(old, o); return true }))
		slices.SortFunc(old, func(a, b store.Outdated) int { return cmp.Compare(a.Seq, b.Seq) })
		out[fmt.Sprintf("superseded %d", keep)] = old
	}
	var raw []string
	ws, err := s.Sessions.WorkingSet("s1")
	must(err)
	slices.SortFunc(ws, func(a, b store.WorkingFile) int { return cmp.Compare(a.Path, b.Path) })
	out["working set"] = ws
	var live, gone []store.Version
	must(s.Live("", func(v store.Version) error { live = append(live, v); return nil }))
	must(s.DeletedIn("", func(v store.Version) bool { gone = append(gone, v); return true }))
	out["live"], out["gone"] = live, gone
	must(s.Raw(func(r store.Raw) error {
		n := 0
		must(r.ByPath(func(store.Version) error { n++; return nil }))
		out["by path"] = n
		return r.Records(store.RecordVersion, func(key, val []byte) error {
			raw = append(raw, fmt.Sprintf("%x %x", key, val))
			return nil
		})
	}))
	out["raw"] = raw
	st := s.Stats()
	out["counts"] = []uint64{st.Seq, st.Versions, st.Files}
	return out
}

var groupSeeds = flag.Int("groups", 8, "histories of TestGroups")

// Groups change how the log is stored, but not what the store answers. This holds after random
// operations, after a restart, and after versions or their contents were dropped.
func TestGroups(t *testing.T) {
	made, emptied := 0, 0
	for seed := range uint64(*groupSeeds) {
		cs := dirHistory(seed, 250)
		var stores [2]*store.Store
		for i, least := range []int{1 << 30, 2} {
			dir := t.TempDir()
			s := storetest.Open(t, dir, storetest.Options())
			rnd := rand.New(rand.NewPCG(seed, 6))
			was := store.SetGroupLeast(least)
			for rest := cs; len(rest) > 0; {
				n := min(len(rest), 1+rnd.IntN(30))
				storetest.Apply(t, s, slices.Clone(rest[:n])...)
				rest = rest[n:]
			}
			store.SetGroupLeast(was)
			if seed%2 == 0 {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				s = storetest.Open(t, dir, storetest.Options())
			}
			stores[i] = s
		}
		alone, grouped := stores[0], stores[1]
		if alone.Groups() != 0 {
			t.Fatalf("seed %d: %d groups", seed, alone.Groups())
		}
		made += grouped.Groups()
		same := func(when string) {
			t.Helper()
			want, got := answers(t, alone), answers(t, grouped)
			for what := range want {
				if !reflect.DeepEqual(want[what], got[what]) {
					t.Fatalf("seed %d, %s: %s:\nin groups\n%+v\nalone\n%+v", seed, when, what, got[what], want[what])
				}
			}
			if len(want) != len(got) {
				t.Fatalf("seed %d, %s: %d answers, %d alone", seed, when, len(got), len(want))
			}
			store.Checked(t, grouped)
		}
		same("as made")
		var old []uint64
		err := grouped.Superseded(t.Context(), 1, func(o store.Outdated) bool { old = append(old, o.Seq); return true })
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(old)
		for _, s := range stores {
			if _, err := s.DropContents(t.Context(), old, "pruned"); err != nil {
				t.Fatal(err)
			}
		}
		same("contents dropped")
		var drop []store.Version
		err = grouped.Each(func(v store.Version) bool {
			if cur, _, err := grouped.Current(v.Path); err != nil {
				t.Fatal(err)
			} else if cur.Seq != v.Seq && v.Seq%7 != 0 && v.Seq < grouped.Seq()*2/3 {
				drop = append(drop, v)
			}
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		before := grouped.Groups()
		for _, s := range stores {
			if _, err := s.DropRecords(t.Context(), drop); err != nil {
				t.Fatal(err)
			}
		}
		emptied += before - grouped.Groups()
		same("versions dropped")
		more := dirHistory(seed+100, 40)
		complete := [2]store.State{alone.Stats(), grouped.Stats()}
		for i, s := range stores {
			if _, err := s.Check(t.Context(), slices.Clone(more)); err != nil {
				t.Fatal(err)
			}
			storetest.Apply(t, s, slices.Clone(more)...)
			stores[i] = s
		}
		same("gone on with")
		for i, s := range stores {
			if err := s.Unfinish(complete[i]); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			stores[i] = storetest.Open(t, s.Dir(), storetest.Options())
		}
		alone, grouped = stores[0], stores[1]
		same("half a batch removed")
	}
	if made < 10**groupSeeds || emptied == 0 {
		t.Errorf("%d groups, %d became empty", made, emptied)
	}
}

// A rename of a directory costs a few keys, however many paths are in its subtree.
func TestRenamesOfADirectoryAreCheap(t *testing.T) {
	s := storetest.Fresh(t)
	x := storetest.NewTree()
	x.Actor = store.Actor{PID: 7, Comm: "mv", Session: "s"}
	cs := []store.Change{x.Mkdir("a", storetest.DirMode)}
	for i := range 300 {
		cs = append(cs, x.Write(store.Path(fmt.Sprintf("a/f%d", i)), fmt.Sprint(i)))
	}
	storetest.Apply(t, s, cs...)
	storetest.Apply(t, s, x.Rename("a", "b")) // makes the list
	var moment uint64
	err := s.Raw(func(r store.Raw) (err error) { moment, err = r.Moment(); return })
	if err != nil {
		t.Fatal(err)
	}
	const renames = 200
	cs = nil
	for range renames / 2 {
		cs = append(cs, x.Rename("b", "a"), x.Rename("a", "b"))
	}
	if made := storetest.Apply(t, s, cs...); len(made) != 2*renames {
		t.Errorf("%d versions returned", len(made))
	}
	n, err := s.KeysSince(moment)
	if err != nil {
		t.Fatal(err)
	}
	if n > 20*renames {
		t.Errorf("%d keys for %d renames", n, renames)
	}
	alone := 0
	if err := s.EachUngrouped(func(store.Version) bool { alone++; return true }); err != nil {
		t.Fatal(err)
	}
	if n := s.Records(); n != uint64(alone)+renames+1 || alone != 303+2*renames {
		t.Errorf("%d records in the log, %d of single versions", n, alone)
	}
	h, err := s.History("b/f7", false)
	if err != nil || len(h) != renames+1 {
		t.Errorf("%d versions, %v", len(h), err)
	}
}

// The process was killed after it had written a list and before it wrote the group. The next list
// gets the same number, but must not contain the paths of the old list.
func TestListWithoutItsGroup(t *testing.T) {
	s := storetest.Fresh(t)
	x := storetest.NewTree()
	cs := []store.Change{x.Mkdir("d", storetest.DirMode)}
	for i := range 12 {
		cs = append(cs, x.Write(store.Path(fmt.Sprintf("d/f%d", i)), "text"))
	}
	storetest.Apply(t, s, cs...)
	if err := errors.Join(s.LeaveListAfter(2, 3), s.Close()); err != nil { // the directory itself has two versions
		t.Fatal(err)
	}
	s = storetest.Open(t, s.Dir(), storetest.Options())
	store.Checked(t, s)
	storetest.Apply(t, s, x.Rename("d", "e"))
	if s.Groups() != 1 {
		t.Errorf("%d groups", s.Groups())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = storetest.Open(t, s.Dir(), storetest.Options())
	if h, err := s.History("e/f7", true); err != nil || len(h) != 2 {
		t.Errorf("%d versions, %v", len(h), err)
	}
	store.Checked(t, s)
}
