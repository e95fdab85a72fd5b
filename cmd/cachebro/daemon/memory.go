package daemon

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"cachebro/store"
	"cachebro/store/leaf/procfs"
	"cachebro/store/leaf/text"
)

// usualMemory is the memory limit of the collector in bytes. Mapped files, which include the
// program, take some 65 MB in addition.
const usualMemory = 112 << 20

// With a fixed memory limit the collector runs without end once the live heap comes near the limit,
// as it does with a long history. So each collection sets the limit to one and a half times the
// live heap, but not below the configured limit.

// followMemory sets the memory limit to floor bytes, and raises it while the live heap needs more.
// stop restores the previous limit. most, if not 0, is the limit of the control group, at which the
// kernel would kill the daemon. Near that limit the collector runs more often.
func followMemory(floor, most int64) (stop func()) {
	was := debug.SetMemoryLimit(floor)
	var ended atomic.Bool
	var arm func()
	arm = func() {
		runtime.AddCleanup(&collected{}, func(struct{}) {
			if !ended.Load() {
				next := max(floor, alive()*3/2+roomBesideHeap)
				if most > 0 && next > most/2 {
					next = max(most/2, alive()*9/8)
				}
				debug.SetMemoryLimit(next)
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

// roomBesideHeap is the memory for stacks, the collector and free spans, in bytes.
const roomBesideHeap = 32 << 20

// collected becomes garbage as soon as it is made, so its cleanup runs after the next collection.
// It contains a pointer, because small values without pointers share a block of memory, which is
// freed only when all of them are garbage.
type collected struct{ _ *collected }

// alive returns the size of the heap that the last collection found alive, in bytes.
func alive() int64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return int64(s[0].Value.Uint64())
}

// memoryFloor returns the daemon's memory limit in a control group whose limit is most, in bytes (0
// means none). The group also contains mountd and the programs of the project.
func memoryFloor(most int64) int64 {
	if most == 0 {
		return usualMemory
	}
	return min(usualMemory, most*2/5)
}

// batchBytes returns how many bytes of text the index takes at once, 0 for the default.
func batchBytes(floor int64) int64 {
	if floor <= 0 || floor >= usualMemory {
		return 0
	}
	return max(floor/128, 64<<10) // the documents of two batches take twenty times this amount
}

// keepMemory is a bucket, and keepKilled is a key in it. The value is how many processes of the
// control group had been killed at the last check, and when that number last grew.
const (
	keepMemory = "memory"
	keepKilled = "killed"
)

// killedForMemory describes how often the kernel has killed processes at the control group's limit.
// It returns "" if it has killed none in the last day. A killed daemon cannot report its own end.
func killedForMemory(st *store.Store, now time.Time) string {
	most, killed := procfs.MemoryGroup()
	return sayKilled(st.KV(keepMemory), most, killed, now)
}

func sayKilled(kv store.KV, most int64, killed uint64, now time.Time) string {
	b, _, err := kv.Get(keepKilled)
	if err != nil || most == 0 {
		return ""
	}
	was, at, _ := strings.Cut(string(b), " ")
	before, _ := strconv.ParseUint(was, 10, 64)
	when, _ := strconv.ParseInt(at, 10, 64)
	if killed != before || len(b) == 0 {
		if killed > before && len(b) > 0 { // without an earlier count, the kills may be older than this project
			when = now.Unix()
		}
		if kv.Set(keepKilled, fmt.Appendf(nil, "%d %d", killed, when)) != nil {
			return ""
		}
	}
	if killed == 0 || now.Sub(time.Unix(when, 0)) > 24*time.Hour {
		return ""
	}
	return fmt.Sprintf("its control group is limited to %s, and the kernel has killed processes at that limit %s", text.Bytes(most), text.Count(killed, "time"))
}
