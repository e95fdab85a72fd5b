package capture

import "time"

// clock notices that the wall clock was set back. What was written after that
// may have a change time from before the baseline scan, so that the scan would
// wrongly pass for having seen it.
type clock struct {
	ahead time.Duration // of the wall clock over the monotonic one, at most so far
}

// clockSlack is below the second that BaselineDone subtracts, and above what
// adjusting a clock takes between two looks.
const clockSlack = 500 * time.Millisecond

// setBack is told how far both clocks have come since the same moment.
func (k *clock) setBack(wall, steady time.Duration) bool {
	ahead := wall - steady
	if ahead < k.ahead-clockSlack {
		k.ahead = ahead
		return true
	}
	k.ahead = max(k.ahead, ahead)
	return false
}

// checkClock looks at both clocks. Whoever relies on a scan does so before: while
// the mount is at rest, nobody else looks.
func (c *Capture) checkClock() {
	now := time.Now()
	c.clockMu.Lock()
	back := c.clock.setBack(now.Round(0).Sub(c.begin.Round(0)), now.Sub(c.begin))
	c.clockMu.Unlock()
	if back {
		c.distrust()
	}
}

// distrust makes capture stop relying on the scans up to now: for content whose
// change time lies before one of them, it is no longer known whether the scan saw it.
// A scan that begins when the clock has come as far again counts.
func (c *Capture) distrust() {
	c.opt.Logger.Warn("the clock was set back; files are copied before they are destroyed, whatever a scan saw")
	// The daemon repeats when its scan began.
	c.moved.Store(max(time.Now().UnixNano(), c.scanBegan.Load()))
	c.baseline.Store(0)
}
