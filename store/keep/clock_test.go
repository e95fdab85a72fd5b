package keep

import (
	"context"
	"fmt"
	"testing"
	"time"

	"cachebro/scripts/testkit/storetest"
)

// clock returns the time of the last change, in ns.
func clock() int64 { return storetest.Now().UnixNano() }

const year = 365 * 24 * int64(time.Hour)

// A clock is a year behind for a while (a machine without a battery, a user with a wrong date), so
// some versions get times from long ago. They used to count as the oldest versions: they were
// pruned although they were minutes old, --since missed them, and they counted as the content of a
// file at any time of that year.
func TestClockSetBackForAWhile(t *testing.T) {
	defer func(was time.Time) { storetest.Wait(was.Sub(storetest.Now())) }(storetest.Now())
	var now int64
	o := testOptions()
	o.KeepAge, o.Now = time.Hour, func() time.Time { return time.Unix(0, now) }
	s := open(t, t.TempDir(), o)
	write := func(from, to int) {
		for i := from; i < to; i++ {
			storetest.Wait(time.Second - time.Millisecond) // file waits for the rest of the second
			apply(t, s, file(OpWrite, "a", fmt.Sprint("text ", i)))
		}
	}
	write(0, 10)
	before := clock()
	storetest.Wait(-time.Duration(year))
	write(10, 20)
	storetest.Wait(time.Duration(before-clock()) + time.Minute)
	write(20, 30)
	now = clock() + int64(time.Minute)

	if r, err := s.Prune(context.Background(), 5, ""); err != nil || r.Versions != 0 {
		t.Errorf("pruned %d versions that are minutes old: %v", r.Versions, err)
	}
	seqs := seqsOf(t, s, "a")
	for name, c := range map[string]struct {
		at   int64
		want uint64
	}{
		"before all":         {before - 10*int64(time.Second) - 1, 0},
		"before it":          {before - 4*int64(time.Second), seqs[5]},
		"just before it":     {before, seqs[19]},
		"after it":           {before + int64(time.Minute) + int64(time.Second), seqs[20]},
		"now":                {now, seqs[29]},
		"while it was wrong": {before - year + 1, 0},
	} {
		if got, err := s.SeqAt(time.Unix(0, c.at)); err != nil || got != c.want {
			t.Errorf("%s: #%d, want #%d: %v", name, got, c.want, err)
		}
	}
	for name, c := range map[string]struct {
		f    Filter
		want int
	}{
		"since the first":   {Filter{Since: time.Unix(0, before-9*int64(time.Second))}, 30},
		"since it":          {Filter{Since: time.Unix(0, before)}, 21},
		"since after it":    {Filter{Since: time.Unix(0, before+1)}, 10},
		"until before it":   {Filter{Until: time.Unix(0, before-1)}, 9},
		"between":           {Filter{Since: time.Unix(0, before), Until: time.Unix(0, before+int64(time.Minute))}, 11},
		"until long before": {Filter{Until: time.Unix(0, before-year/2)}, 0},
	} {
		if vs, _, err := s.Log(c.f); err != nil || len(vs) != c.want {
			t.Errorf("%s: %d versions, want %d: %v", name, len(vs), c.want, err)
		}
	}

	// The versions with wrong times count as old as the versions recorded before them.
	now += int64(2 * time.Hour)
	if r, err := s.Prune(context.Background(), 5, ""); err != nil || r.Versions != 25 {
		t.Errorf("%d of 25 versions were pruned: %v", r.Versions, err)
	}
	checked(t, s)
}

// A clock is set back by a year for good. The versions recorded before that have times in the
// future. They are neither dropped as old versions nor listed as new ones.
func TestClockSetBackForGood(t *testing.T) {
	defer func(was time.Time) { storetest.Wait(was.Sub(storetest.Now())) }(storetest.Now())
	var now int64
	o := testOptions()
	o.KeepAge, o.Now = time.Hour, func() time.Time { return time.Unix(0, now) }
	s := open(t, t.TempDir(), o)
	for range 10 {
		apply(t, s, file(OpWrite, "a", fmt.Sprint("before ", clock())))
	}
	now = clock()
	storetest.Wait(-time.Duration(year))
	began := clock()
	for range 10 {
		apply(t, s, file(OpWrite, "a", fmt.Sprint("after ", clock())))
	}
	now = clock() + int64(time.Minute)
	for range 2 {
		if r, err := s.Collect(context.Background()); err != nil || r.Versions != 0 {
			t.Errorf("collected %d versions: %v", r.Versions, err)
		}
		if r, err := s.Prune(context.Background(), 5, ""); err != nil || r.Versions != 0 {
			t.Errorf("pruned %d versions that are minutes old: %v", r.Versions, err)
		}
	}
	if vs, _, err := s.Log(Filter{Since: time.Unix(0, began)}); err != nil || len(vs) != 10 {
		t.Errorf("%d versions since the clock was set back, want 10: %v", len(vs), err)
	}
	vs, _, err := s.Log(Filter{})
	for i := range vs {
		if i > 0 && vs[i].Seq >= vs[i-1].Seq {
			t.Error("the log is not in the order in which it happened")
		}
	}
	if err != nil || len(vs) != 20 {
		t.Errorf("%d versions, want 20: %v", len(vs), err)
	}
	now += int64(2 * time.Hour)
	if r, err := s.Prune(context.Background(), 5, ""); err != nil || r.Versions != 5 {
		t.Errorf("%d of the 5 old ones were pruned: %v", r.Versions, err)
	}
	checked(t, s)
}

func seqsOf(t *testing.T, s *Store, p Path) []uint64 {
	t.Helper()
	vs, err := s.History(p, true)
	if err != nil {
		t.Fatal(err)
	}
	seqs := make([]uint64, len(vs))
	for i, v := range vs {
		seqs[i] = v.Seq
	}
	return seqs
}
