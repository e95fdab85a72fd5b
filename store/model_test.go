package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path"
	"reflect"
	"slices"
	"testing"

	"cachebro/scripts/testkit/storetest"
	"cachebro/store"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// Whatever happens to a tree, the store's live paths equal the tree, with batches of any size.
// Every content that a file had when it was closed can still be read.
func TestApplyModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := storetest.FreshRapid(r, storetest.Options())
		tr := storetest.NewTree()
		tr.Tails = true
		var batch []store.Change
		wrote := map[store.Path][]string{}
		flush := func() {
			if _, err := s.Apply(context.Background(), batch, nil); err != nil {
				r.Fatal(err)
			}
			batch = nil
			if msg := storetest.Differs(s, tr.Clone()); msg != "" {
				r.Fatal(msg)
			}
		}
		for range rapid.IntRange(1, 60).Draw(r, "steps") {
			c, ok := tr.Step(r)
			if !ok {
				continue
			}
			batch = append(batch, c)
			if c.Op == store.OpWrite || c.Op == store.OpCreate {
				wrote[c.Path] = append(wrote[c.Path], tr.Files[c.Path].Data)
			}
			if rapid.IntRange(0, 5).Draw(r, "flush") == 0 {
				flush()
			}
		}
		flush()
		s.ClearContents()
		for p := range wrote {
			if msg := backwards(s, p); msg != "" {
				r.Fatal(msg)
			}
		}
		for p, texts := range wrote {
			vs, err := s.History(p, false)
			if err != nil {
				r.Fatal(err)
			}
			i := 0
			for _, v := range vs {
				if v.Deleted() || v.Stat.Mode&unix.S_IFMT != unix.S_IFREG {
					continue
				}
				b, err := s.Content(v.Blob)
				if err != nil {
					r.Fatalf("%q version %d: %v", p, v.Seq, err)
				}
				for i < len(texts) && texts[i] == string(b) {
					i++
				}
			}
			if i != len(texts) {
				r.Fatalf("%q: %d of %d closed contents are in its history, in order", p, i, len(texts))
			}
		}
	})
}

// backwards compares the log of a file, with several limits, with the newest versions in its
// history, across renames. It returns a description of the first difference, or "".
func backwards(s *store.Store, p store.Path) string {
	whole, err := s.History(p, true)
	if err != nil {
		return err.Error()
	}
	if cur, ok, err := s.Current(p); err != nil || !ok || cur.Stat.Mode&unix.S_IFMT == unix.S_IFDIR || cur.Op == store.OpRmdir {
		return "" // the log of a directory covers its subtree
	}
	slices.Reverse(whole)
	for _, limit := range []int{1, 3, 1000} {
		vs, more, err := s.Log(store.Filter{Path: p, Baselines: true, Limit: limit})
		if err != nil || len(vs) != min(limit, len(whole)) || more != (len(whole) > limit) {
			return fmt.Sprintf("%q: %d of %d versions, more: %v, %v", p, len(vs), len(whole), more, err)
		}
		for i := range vs {
			if vs[i].Seq != whole[i].Seq {
				return fmt.Sprintf("%q: version %d is at %d, where its history has %d", p, vs[i].Seq, i, whole[i].Seq)
			}
		}
	}
	return ""
}

// A write through one name of a file counts for its other names too, even after renames.
func TestHardLinks(t *testing.T) {
	s := storetest.Fresh(t)
	tr := storetest.NewTree()
	storetest.Apply(t, s, tr.Write("a", "1"), tr.Link("a", "b"), tr.Link("b", "c"))
	storetest.Apply(t, s, tr.Rename("c", "d"))
	storetest.Apply(t, s, tr.Write("d", "2"))
	for _, p := range []store.Path{"a", "b", "d"} {
		if got := storetest.Content(t, s, p); got != "2" {
			t.Fatalf("%s is %q", p, got)
		}
	}
	storetest.Apply(t, s, tr.Remove("a"), tr.Write("b", "3"), tr.Chmod("b", 0o600))
	if v, _, _ := s.Current("a"); !v.Deleted() {
		t.Fatal("a is back")
	}
	if msg := storetest.Differs(s, tr.Clone()); msg != "" {
		t.Fatal(msg)
	}
}

// sed -i writes a temporary file and renames it over the edited file, which is one save. A mv of a
// file that another process created is a rename.
func TestMadeFor(t *testing.T) {
	s, tr := storetest.Fresh(t), storetest.NewTree()
	as := func(session store.SessionID, comm string, pid uint32) func(...store.Change) {
		tr.Actor = store.Actor{PID: pid, Start: uint64(pid), Comm: comm, Session: session}
		return func(cs ...store.Change) { storetest.Apply(t, s, cs...) }
	}
	as("", "vim", 5)(tr.Write("a", "old"))
	as("A", "sed", 10)(tr.Write("sedXY", "new"), tr.Chmod("sedXY", 0o600), tr.Rename("sedXY", "a"))
	as("A", "sh", 11)(tr.Write("b", "b"))
	as("A", "mv", 12)(tr.Rename("b", "c"))
	first := s.Seq()
	as("A", "vim", 13)(tr.Write("tmp", "1"), tr.Rename("tmp", "d"))
	second := s.Seq()
	as("A", "vim", 13)(tr.Write("tmp", "2"), tr.Rename("tmp", "d"))
	for p, want := range map[store.Path]uint64{"a": 2, "c": 0, "d": second + 1} {
		v, _, err := s.Current(p)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.MadeFor(v); got != want || err != nil {
			t.Errorf("%q: %d (%v), want %d", p, got, err, want)
		}
	}
	// Each save through the same temporary name has its own first version.
	earlier, err := s.Version(second)
	if got, merr := s.MadeFor(earlier); got != first+1 || err != nil || merr != nil {
		t.Errorf("the save before: %d (%v, %v), want %d", got, err, merr, first+1)
	}
}

// TestBatchesMakeTheSameVersions: what a large batch reads in advance, and when it stops a walk,
// must not change its result.
func TestBatchesMakeTheSameVersions(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	x := storetest.NewTree()
	x.Actor = store.Actor{PID: 7, Comm: "test", Session: "s"}
	var cs []store.Change
	for d := range 30 {
		cs = append(cs, x.Mkdir(store.Path(fmt.Sprintf("d%d", d)), storetest.DirMode))
	}
	some := func() store.Path { return store.Path(fmt.Sprintf("d%d/f%d", rng.IntN(30), rng.IntN(40))) }
	for len(cs) < 3000 {
		p := some()
		dir := store.Path(path.Dir(string(p)))
		switch n := rng.IntN(20); {
		case x.Files[dir] == nil:
			cs = append(cs, x.Mkdir(dir, storetest.DirMode))
		case n == 0: // rm -rf
			for _, k := range x.Paths(func(k store.Path, _ *storetest.File) bool { return k != dir && k.Inside(dir) }) {
				if rng.IntN(10) > 0 { // one in ten is removed while nobody watches
					cs = append(cs, x.Remove(k))
				} else {
					delete(x.Files, k)
				}
			}
			cs = append(cs, x.Remove(dir))
		case n < 6 && x.Files[p] != nil:
			cs = append(cs, x.Remove(p))
		case n < 8 && x.Files[p] != nil:
			if to := some(); x.Files[store.Path(path.Dir(string(to)))] != nil && x.Files[to] == nil {
				cs = append(cs, x.Rename(p, to))
			}
		default:
			cs = append(cs, x.Write(p, fmt.Sprintf("text %d of %s\n", rng.IntN(50), p)))
		}
	}
	one, many := storetest.Fresh(t), storetest.Fresh(t)
	for i := range cs {
		c := cs[i]
		storetest.Apply(t, one, c)
	}
	for rest := cs; len(rest) > 0; {
		n := min(len(rest), 1+rng.IntN(400))
		storetest.Apply(t, many, slices.Clone(rest[:n])...)
		if rest = rest[n:]; rng.IntN(3) == 0 {
			many.ClearCurrent()
		}
	}
	want, err := one.Since(0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	got, err := many.Since(0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) {
		t.Fatalf("%d versions in batches, %d one by one", len(got), len(want))
	}
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Fatalf("version %d in batches:\n%+v\none by one:\n%+v", i, got[i], want[i])
		}
	}
	if a, b := one.Stats(), many.Stats(); a.Files != b.Files || a.Blobs != b.Blobs {
		t.Errorf("counted %+v in batches, %+v one by one", b, a)
	}
	store.Checked(t, many)
}
