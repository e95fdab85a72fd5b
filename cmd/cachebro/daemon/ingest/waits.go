// How long the services wait for what.

package ingest

import (
	"context"
	"time"
)

// What failed is tried again after RetryFirst, then after twice as long each
// time, but no later than RetryLast.
const (
	RetryFirst = time.Second
	RetryLast  = time.Minute
)

// FreshWait is how long a read waits for what was closed before it.
const FreshWait = 20 * time.Millisecond

// RecordWait is within how long after a change is visible its record is in the spool: a
// mountd that has just begun reads the project's rules before it tells of anything.
const RecordWait = 500 * time.Millisecond

// QueryWait is how long log, show and the like wait for what has just been
// spooled: nobody wants "sed -i x; cachebro log" to miss the sed.
const QueryWait = 2 * time.Second

// ClockTick is within which two changes may leave the same ctime: the kernel's clock
// for time stamps moves every 4 ms at most systems, 10 ms at some.
const ClockTick = int64(20 * time.Millisecond)

// ClockLag is by how much that clock is behind at most, in ns: a jiffy at 100 Hz.
const ClockLag = int64(10 * time.Millisecond)

// Sleep waits; false when ctx ended.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
