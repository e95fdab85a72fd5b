package ingest

import (
	"context"
	"time"
)

// A failed operation is retried after RetryFirst. The pause doubles with each failure, up to
// RetryLast.
const (
	RetryFirst = time.Second
	RetryLast  = time.Minute
)

// FreshWait is how long a read waits for files closed before it to be recorded.
const FreshWait = 20 * time.Millisecond

// RecordWait is how long a change may be visible before its record is in the spool. A mountd that
// has just started reads the project's rules before it reports anything.
const RecordWait = 500 * time.Millisecond

// QueryWait is how long log, show and the like wait for records that have just been spooled:
// after "sed -i x; cachebro log" people expect to see what sed did.
const QueryWait = 2 * time.Second

// ClockTick is the time, in ns, within which two changes may get the same ctime. The kernel's clock
// for time stamps advances every 4 ms on most systems, every 10 ms on some.
const ClockTick = int64(20 * time.Millisecond)

// ClockLag is the most by which the kernel's clock for time stamps lags, in ns: one jiffy at 100
// Hz.
const ClockLag = int64(10 * time.Millisecond)

// Sleep waits for d. It returns false if ctx ended before that.
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
