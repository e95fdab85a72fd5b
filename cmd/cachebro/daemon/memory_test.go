package daemon

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// The limit was fixed at 160 MiB: with more than that alive, the collector ran for half
// of the processor time.
func TestMemoryLimitFollowsWhatIsAlive(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	const floor = 40 << 20
	stop := followMemory(floor)
	until := func(what string, is func(limit int64) bool) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); !is(debug.SetMemoryLimit(-1)); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: the limit is %d", what, debug.SetMemoryLimit(-1))
			}
			runtime.GC()
		}
	}
	held := make([][]byte, 100)
	for i := range held {
		held[i] = make([]byte, 1<<20)
	}
	until("100 MiB alive", func(limit int64) bool { return limit >= 150<<20 })
	runtime.KeepAlive(held)
	held = nil
	until("nothing alive", func(limit int64) bool { return limit < 150<<20 && limit >= floor })
	stop()
	runtime.GC()
	if got := debug.SetMemoryLimit(-1); got != before {
		t.Errorf("%d afterwards, %d before", got, before)
	}
}
