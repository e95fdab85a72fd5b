package space

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestAllot(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	old := now.Add(-30 * 24 * time.Hour)
	for _, c := range []struct {
		what string
		cap  int64
		all  []StoreSize
		want []int64
	}{
		{"nobody", 100, nil, []int64{}},
		{"alone", 100, []StoreSize{{30, now}}, []int64{100}},
		{"alone and too large", 100, []StoreSize{{130, now}}, []int64{100}},
		{"all fit", 100, []StoreSize{{30, now}, {50, old}}, []int64{50, 70}},
		{"the largest gives way", 100, []StoreSize{{30, now}, {500, now}}, []int64{70, 70}},
		{"down to one level", 90, []StoreSize{{40, now}, {500, now}, {300, now}}, []int64{30, 30, 30}},
		{"the small one is left alone", 100, []StoreSize{{10, now}, {500, now}, {300, now}}, []int64{45, 45, 45}},
		{"the idle one first", 100, []StoreSize{{70, now}, {70, old}}, []int64{100, 30}},
		{"but not below its quarter", 100, []StoreSize{{500, now}, {500, old}}, []int64{80, 20}},
		{"a clock set back", 100, []StoreSize{{80, now.Add(time.Hour)}, {80, now}}, []int64{50, 50}},
	} {
		if got := Allot(c.cap, c.all, now); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
	// If all stores keep to their shares, the cap holds. A store that fits is not reduced, and no
	// store gets less than the floor.
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		limit := random.Int64N(1000) + 100
		all := make([]StoreSize, random.IntN(8)+1)
		for i := range all {
			all[i] = StoreSize{random.Int64N(800), now.Add(-time.Duration(random.IntN(20)) * 24 * time.Hour)}
		}
		sum := int64(0)
		n := int64(len(all))
		for i, allowed := range Allot(limit, all, now) {
			sum += min(all[i].Used, allowed)
			if floor := min(all[i].Used, limit/(4*n)-1); allowed < floor {
				t.Fatalf("cap %d, %v: %d may take %d only", limit, all, i, allowed)
			}
		}
		if sum > limit {
			t.Fatalf("cap %d, %v: %d in all", limit, all, sum)
		}
	}
}
