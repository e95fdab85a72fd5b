package store_test

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"cachebro/scripts/testkit/storetest"
	"cachebro/store"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// A batch counts the names of a file once, at its end, and writes the newest version of a path
// once. The result is the same as if the changes were applied one by one.
func TestNamesInBatches(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		one, many := storetest.FreshRapid(r, storetest.Options()), storetest.FreshRapid(r, storetest.Options())
		x := storetest.NewTree()
		var cs, batch []store.Change
		file := func(_ store.Path, n *storetest.File) bool { return n.Mode&unix.S_IFMT == unix.S_IFREG }
		for i := range rapid.IntRange(1, 80).Draw(r, "steps") {
			c, ok := store.Change{}, false
			if files := x.Paths(file); len(files) > 0 && rapid.Bool().Draw(r, "a name") { // link or remove one of the names n1 to n4, because x.Step makes few links
				from, to := rapid.SampledFrom(files).Draw(r, "of"), rapid.SampledFrom([]store.Path{"n1", "n2", "n3", "n4"}).Draw(r, "to")
				if x.Files[to] == nil {
					c, ok = x.Link(from, to), true
				} else if file(to, x.Files[to]) {
					c, ok = x.Remove(to), true
				}
			} else {
				c, ok = x.Step(r)
			}
			if !ok {
				continue
			}
			c.Stat.Ctime = int64(i + 1)
			if c.Op == store.OpLink && rapid.IntRange(0, 4).Draw(r, "elsewhere") == 0 {
				c.Class = 2 // a name that is not recorded
				delete(x.Files, c.Path2)
			}
			cs = append(cs, c)
		}
		for _, c := range cs {
			if _, err := one.Apply(context.Background(), []store.Change{c}, nil); err != nil {
				r.Fatal(err)
			}
		}
		flush := func() {
			if _, err := many.Apply(context.Background(), batch, nil); err != nil {
				r.Fatal(err)
			}
			batch = nil
		}
		for _, c := range cs {
			if batch = append(batch, c); rapid.IntRange(0, 9).Draw(r, "flush") == 0 {
				flush()
			}
		}
		flush()
		if rapid.Bool().Draw(r, "from disk") {
			one.ClearCurrent()
			many.ClearCurrent()
		}
		want, err := one.Since(0, 1<<20)
		if err != nil {
			r.Fatal(err)
		}
		got, err := many.Since(0, 1<<20)
		if err != nil {
			r.Fatal(err)
		}
		if len(got) != len(want) {
			r.Fatalf("%d versions in batches, %d one by one", len(got), len(want))
		}
		for i := range want {
			if !reflect.DeepEqual(got[i], want[i]) {
				r.Fatalf("version %d in batches:\n%+v\none by one:\n%+v", i+1, got[i], want[i])
			}
			a, _, aerr := one.Current(want[i].Path)
			b, _, berr := many.Current(want[i].Path)
			if aerr != nil || berr != nil || !reflect.DeepEqual(a, b) {
				r.Fatalf("the newest of %q in batches:\n%+v (%v)\none by one:\n%+v (%v)", want[i].Path, b, berr, a, aerr)
			}
		}
		live := func(s *store.Store) (vs []store.Version) {
			if err := s.Live("", func(v store.Version) error { vs = append(vs, v); return nil }); err != nil {
				r.Fatal(err)
			}
			return vs
		}
		if a, b := live(one), live(many); !slices.EqualFunc(a, b, func(a, b store.Version) bool { return reflect.DeepEqual(a, b) }) {
			r.Fatalf("live in batches:\n%+v\none by one:\n%+v", b, a)
		}
		store.Checked(t, one)
		store.Checked(t, many)
	})
}

// A new name of a file writes nothing under its other names, so a batch with four times as many
// links costs about four times as much, not sixteen times.
func TestManyLinks(t *testing.T) {
	each := func(links int) float64 {
		s, x := storetest.Fresh(t), storetest.NewTree()
		cs := []store.Change{x.Write("0", "text")}
		for i := 1; i < links; i++ {
			c := x.Link("0", store.Path(fmt.Sprint(i)))
			c.Stat.Nlink = uint32(i + 1)
			cs = append(cs, c)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := s.Apply(t.Context(), cs, nil); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		for _, p := range []store.Path{"0", "7", store.Path(fmt.Sprint(links - 1))} {
			if v, _, err := s.Current(p); err != nil || v.Stat.Nlink != uint32(links) {
				t.Errorf("%q has %d names (%v), want %d", p, v.Stat.Nlink, err, links)
			}
		}
		return float64(after.Mallocs-before.Mallocs) / float64(links)
	}
	if few, many := each(250), each(1000); many > 2*few {
		t.Errorf("a link allocates %.0f times among 250, %.0f times among 1,000", few, many)
	}
}

// A new or removed name writes a few keys, however many names the file has. Each batch used to
// write the newest version of every name again, to correct its link count.
func TestNamesWriteFewKeys(t *testing.T) {
	s, x := storetest.Fresh(t), storetest.NewTree()
	storetest.Apply(t, s, x.Write("0", "text"))
	for i := 1; i < 300; i++ {
		storetest.Apply(t, s, x.Link("0", store.Path(fmt.Sprint(i))))
	}
	var moment uint64
	err := s.Raw(func(r store.Raw) (err error) { moment, err = r.Moment(); return })
	if err != nil {
		t.Fatal(err)
	}
	const changes = 20
	for i := range changes / 2 {
		storetest.Apply(t, s, x.Link("0", store.Path(fmt.Sprint("new", i))))
		storetest.Apply(t, s, x.Remove(store.Path(fmt.Sprint(100+i))))
	}
	n, err := s.KeysSince(moment)
	if err != nil {
		t.Fatal(err)
	}
	if n > 10*changes {
		t.Errorf("%d changes of a name wrote %d keys", changes, n)
	}
	for _, p := range []store.Path{"0", "299", "new0"} {
		if v, _, err := s.Current(p); err != nil || v.Stat.Nlink != 300 {
			t.Errorf("%q has %d names (%v), want 300", p, v.Stat.Nlink, err)
		}
	}
	store.Checked(t, s)
}
