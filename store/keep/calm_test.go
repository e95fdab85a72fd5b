package keep

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"cachebro/store"
)

// Packing waits until the machine is idle.
func TestPackingWaits(t *testing.T) {
	o := testOptions()
	now := time.Now()
	o.Now = func() time.Time { return now }
	st, err := store.Open(t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	calm, rnd := false, rand.New(rand.NewPCG(1, 2))
	s := &Store{st, New(st, nil, func() bool { return calm })}
	t.Cleanup(func() { s.Close() })
	for i := range 40 {
		apply(t, s, file(OpWrite, Path(fmt.Sprint("f", i)), string(noise(rnd, 1000))))
	}
	now = now.Add(time.Hour)
	for _, want := range []bool{false, true} {
		calm = want
		r, err := s.Collect(context.Background())
		if err != nil || r.Packed > 0 != want {
			t.Errorf("calm %v: packed %d, %v", calm, r.Packed, err)
		}
	}
}
