package keep

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"cachebro/scripts/testkit/storetest"
	"cachebro/store/space"
)

// The space that a store takes is known without opening the store. Opening the store does not
// change the time of its last write.
func TestMeasure(t *testing.T) {
	dir := t.TempDir()
	if h := space.Measure(filepath.Join(dir, "none")); h != (space.StoreSize{}) {
		t.Errorf("no store takes %+v", h)
	}
	o := testOptions()
	at := time.Unix(1_700_000_000, 0)
	o.Now = func() time.Time { return at }
	s := open(t, dir, o)
	apply(t, s, file(OpWrite, "f", "text"))
	used, _, err := s.DiskUsage()
	if h := space.Measure(dir); err != nil || !h.Wrote.Equal(at) || h.Used <= 0 || h.Used > 2*used+1<<20 {
		t.Errorf("%+v, the store itself says %d, %v", h, used, err)
	}
	at = at.Add(30 * time.Minute)
	apply(t, s, file(OpWrite, "f", "another text"))
	if h := space.Measure(dir); h.Wrote.After(at) || h.Wrote.Before(at.Add(-time.Hour)) {
		t.Errorf("half an hour later: written %v, now %v", h.Wrote, at)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	last := at
	at = at.Add(100 * time.Hour)
	s = open(t, dir, o)
	if _, err := s.Collect(context.Background()); err != nil {
		t.Fatal(err)
	}
	if h := space.Measure(dir); h.Wrote.After(last) {
		t.Errorf("opened only: written %v", h.Wrote)
	}
	apply(t, s, file(OpWrite, "f", "a third text"))
	if h := space.Measure(dir); !h.Wrote.Equal(at) {
		t.Errorf("written %v, want %v", h.Wrote, at)
	}
	// A store written by an older cachebro does not record the time of its last write.
	if err := os.Remove(filepath.Join(dir, "wrote")); err != nil {
		t.Fatal(err)
	}
	if h := space.Measure(dir); time.Since(h.Wrote) > time.Hour {
		t.Errorf("without the note: %v", h.Wrote)
	}
}

// Collect keeps the store within the share of the space that is now allowed, not within the cap.
// Where nothing can be dropped, it does not retry every minute.
func TestAllowed(t *testing.T) {
	o := testOptions()
	o.Cap = 64 * mib
	at := storetest.Now()
	o.Now = func() time.Time { return at }
	allowed := o.Cap
	o.Allowed = func(int64) int64 { return allowed }
	s := open(t, t.TempDir(), o)
	rnd := rand.New(rand.NewPCG(1, 1))
	fill := func(n int) {
		for i := range n {
			apply(t, s, file(OpWrite, Path(fmt.Sprint("f", i%4)), string(noise(rnd, 4000))))
		}
	}
	fill(80)
	if r, err := s.Collect(context.Background()); err != nil || r.Blobs > 0 {
		t.Fatalf("within the cap: %+v %v", r, err)
	}
	allowed = 8 * mib
	r, err := s.Collect(context.Background())
	if err != nil || r.Blobs == 0 || r.After > allowed {
		t.Fatalf("above its share: %+v %v", r, err)
	}
	checked(t, s)
	for i := range 4 {
		contentOf(t, s, Path(fmt.Sprint("f", i)))
	}
	allowed = mib / 4 // less than the present contents of the files
	for range 3 {
		if r, err = s.Collect(context.Background()); err != nil {
			t.Fatal(err)
		}
		at = at.Add(time.Minute)
	}
	if !s.shrunken.shouldWait(at, s.Seq()) {
		t.Errorf("tries again after a minute: %+v", r)
	}
	fill(8)
	at = at.Add(shrinkAgain)
	if r, err := s.Collect(context.Background()); err != nil || r.Blobs == 0 {
		t.Errorf("something new to drop: %+v %v", r, err)
	}
	checked(t, s)
}

// A history of files outside of projects has an age beyond which no content is kept. The present
// contents of files are dropped before those that an undo would need, because the files still have
// them.
func TestPlacesAreBounded(t *testing.T) {
	o := testOptions()
	o.Cap, o.MaxAge = 64*mib, 30*24*time.Hour
	o.Now = storetest.Now
	allowed := o.Cap
	o.Allowed = func(int64) int64 { return allowed }
	s := open(t, t.TempDir(), o)
	rnd := rand.New(rand.NewPCG(1, 1))
	collect := func() {
		t.Helper()
		if _, err := s.Collect(context.Background()); err != nil {
			t.Fatal(err)
		}
		checked(t, s)
	}
	has := func(p Path) bool {
		t.Helper()
		v, ok, err := s.Current(p)
		if err != nil || !ok {
			t.Fatal(p, ok, err)
		}
		return v.Blob != Hash{}
	}
	apply(t, s, file(OpWrite, "old", string(noise(rnd, 4000))))
	storetest.Wait(o.MaxAge + time.Hour)
	apply(t, s, file(OpWrite, "young", string(noise(rnd, 4000))))
	collect()
	if has("old") || !has("young") {
		t.Errorf("beyond its age: old %v, young %v", has("old"), has("young"))
	}
	for i := range 40 {
		apply(t, s, file(OpWrite, Path(fmt.Sprint("present", i)), string(noise(rnd, 20_000))))
	}
	allowed = 8 * mib
	collect()
	if has("present0") {
		t.Error("what a file holds now is kept beyond the size")
	}
}
