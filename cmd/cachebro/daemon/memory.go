package daemon

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// A fixed limit of memory makes the collector run without end once what is alive comes
// near it, as a long history in memory does. So the limit follows what is alive, after each collection: half as much
// again, and never below what was asked for.

// followMemory keeps the collector to floor bytes, and to more only while more is alive,
// until stop is called, which restores what was before.
func followMemory(floor int64) (stop func()) {
	was := debug.SetMemoryLimit(floor)
	var ended atomic.Bool
	var arm func()
	arm = func() {
		runtime.AddCleanup(&collected{}, func(struct{}) {
			if !ended.Load() {
				debug.SetMemoryLimit(max(floor, alive()*3/2+roomBesideHeap))
				arm()
			}
		}, struct{}{})
	}
	arm()
	return func() {
		ended.Store(true)
		debug.SetMemoryLimit(was)
	}
}

// roomBesideHeap is what stacks, the collector and free spans take, in bytes.
const roomBesideHeap = 32 << 20

// collected becomes garbage at once, and so tells of each collection. It has a pointer,
// because the runtime packs several small values without one into one.
type collected struct{ _ *collected }

// alive is what the last collection found, in bytes.
func alive() int64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return int64(s[0].Value.Uint64())
}
