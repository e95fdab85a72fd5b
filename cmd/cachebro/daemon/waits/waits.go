// Package waits says how long the services wait for what, and waits.
package waits

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

// Fresh is how long a read waits for what was closed before it.
const Fresh = 20 * time.Millisecond

// Record is within how long after a change is visible its record is in the spool: a
// mountd that has just begun reads the project's rules before it tells of anything.
const Record = 500 * time.Millisecond

// Query is how long log, show and the like wait for what has just been
// spooled: nobody wants "sed -i x; cachebro log" to miss the sed.
const Query = 2 * time.Second

// Tick is within which two changes may leave the same ctime: the kernel's clock
// for time stamps moves every 4 ms at most systems, 10 ms at some.
const Tick = int64(20 * time.Millisecond)

// Lag is by how much that clock is behind at most, in ns: a jiffy at 100 Hz.
const Lag = int64(10 * time.Millisecond)

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
