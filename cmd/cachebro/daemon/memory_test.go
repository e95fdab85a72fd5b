package daemon

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"cachebro/scripts/testkit/storetest"
)

// The limit used to be fixed at 160 MiB. When the live heap was larger than that, the collector
// used half of the processor time.
func TestMemoryLimitFollowsWhatIsAlive(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	const floor = 40 << 20
	stop := followMemory(floor, 0)
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

// Near the limit of the control group, the collector runs more often. The memory limit used to be
// one and a half times the live heap even there, so the kernel killed the daemon.
func TestMemoryLimitBelowTheGroups(t *testing.T) {
	const most = 200 << 20
	stop := followMemory(memoryFloor(most), most)
	defer stop()
	held := make([][]byte, 130)
	for i := range held {
		held[i] = make([]byte, 1<<20)
	}
	is := func() bool { l := debug.SetMemoryLimit(-1); return l >= 130<<20 && l < 180<<20 }
	for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the limit is %d", debug.SetMemoryLimit(-1))
		}
		runtime.GC()
	}
	runtime.KeepAlive(held)
	if memoryFloor(0) != usualMemory || memoryFloor(64<<30) != usualMemory || memoryFloor(100<<20) > 50<<20 {
		t.Error("the floor does not go by the control group")
	}
	if batchBytes(usualMemory) != 0 || batchBytes(memoryFloor(100<<20)) > 512<<10 {
		t.Error("the batches of the index do not go by the control group")
	}
}

// A daemon that was killed for lack of memory rebuilds the index when it is started again. status
// used to report only the rebuilding.
func TestSayKilled(t *testing.T) {
	kv := storetest.Open(t, t.TempDir(), storetest.Options()).KV(keepMemory)
	now := time.Now()
	for _, c := range []struct {
		killed uint64
		at     time.Duration
		says   string
	}{
		{2, 0, ""}, // before the first daemon
		{2, time.Hour, ""},
		{3, 2 * time.Hour, "3 times"},
		{3, 3 * time.Hour, "3 times"},
		{3, 30 * time.Hour, ""},
		{0, 31 * time.Hour, ""}, // in another control group
		{1, 32 * time.Hour, "1 time"},
	} {
		said := sayKilled(kv, 100<<20, c.killed, now.Add(c.at))
		if (said == "") != (c.says == "") || !strings.Contains(said, c.says) {
			t.Errorf("%d killed after %v: %q", c.killed, c.at, said)
		}
	}
	if said := sayKilled(kv, 0, 9, now); said != "" {
		t.Errorf("without a limit: %q", said)
	}
}
