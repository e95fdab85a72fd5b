package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// The log without baselines equals the whole log minus the baselines, in each direction and between
// any bounds. The baselines come from complete scans, from scans that changes interrupt, and from a
// scan that a reopened store continues.
func TestLogPassesOverWhatWasFound(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, testOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { s.Close() }()
	rnd := rand.New(rand.NewPCG(1, 1))
	n := 0
	found := func(many int) {
		for many > 0 {
			var cs []Change
			for range min(many, 1+rnd.IntN(300)) {
				n++
				c := file(OpBaseline, Path(fmt.Sprintf("d/f%d", n)), "found")
				cs = append(cs, c)
			}
			many -= len(cs)
			apply(t, s, cs...)
		}
	}
	changed := func(many int) {
		for range many {
			n++
			apply(t, s, file(OpWrite, Path(fmt.Sprintf("d/f%d", rnd.IntN(n))), fmt.Sprint("text ", n)))
		}
	}
	check := func() {
		t.Helper()
		all, _, err := s.Log(Filter{Baselines: true, Oldest: true, Limit: 1 << 20})
		if err != nil || len(all) != int(s.Seq()) {
			t.Fatal(len(all), s.Seq(), err)
		}
		for range 40 {
			f := Filter{Limit: 1 << 20}
			if rnd.IntN(4) > 0 {
				f.After = rnd.Uint64N(s.Seq())
			}
			if rnd.IntN(4) > 0 {
				f.Before = 1 + rnd.Uint64N(s.Seq())
			}
			var want []uint64
			for _, v := range all {
				if v.Op != OpBaseline && v.Seq > f.After && (f.Before == 0 || v.Seq < f.Before) {
					want = append(want, v.Seq)
				}
			}
			for _, f.Oldest = range []bool{true, false} {
				vs, _, err := s.Log(f)
				got := []uint64{}
				for _, v := range vs {
					got = append(got, v.Seq)
				}
				if !f.Oldest {
					slices.Reverse(got)
				}
				if err != nil || !slices.Equal(got, want) {
					t.Fatalf("%+v: %d versions, want %d: %v", f, len(got), len(want), err)
				}
			}
		}
	}
	found(1000)
	check()
	changed(3)
	found(100)
	changed(5)
	found(700)
	changed(1)
	found(400)
	check()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(dir, testOptions()); err != nil {
		t.Fatal(err)
	}
	found(300)
	check()
	var runs []uint64
	for _, r := range s.state.Load().BaselineRuns {
		runs = append(runs, r.len())
	}
	if want := []uint64{1000, 700, 700}; !slices.Equal(runs, want) {
		t.Errorf("the state knows runs of %d, want %d", runs, want)
	}
	for range maxRuns {
		found(260)
		changed(1)
	}
	check()
	if got := s.state.Load().BaselineRuns; len(got) != maxRuns || got[0].len() != 1000 {
		t.Errorf("%d runs, the first of %d", len(got), got[0].len())
	}
}
