package capture

import "time"

// clock notices that the wall clock was set back. A file written after that may have a
// ctime from before the baseline scan, so that the scan would wrongly seem to have seen
// it.
type clock struct {
	ahead time.Duration // largest lead of the wall clock over the monotonic one so far
}

// clockSlack is less than the second that BaselineDone subtracts, and more than clock
// adjustments change between two looks.
const clockSlack = 500 * time.Millisecond

// setBack takes how far both clocks have advanced, and reports whether the wall clock was
// set back.
func (k *clock) setBack(wall, steady time.Duration) bool {
	ahead := wall - steady
	if ahead < k.ahead-clockSlack {
		k.ahead = ahead
		return true
	}
	k.ahead = max(k.ahead, ahead)
	return false
}

// checkClock compares the clocks. It is also called before a scan is relied on, because
// nobody calls it while the mount is at rest.
func (c *Capture) checkClock() {
	now := time.Now()
	c.clockMu.Lock()
	back := c.clock.setBack(now.Round(0).Sub(c.begin.Round(0)), now.Sub(c.begin))
	c.clockMu.Unlock()
	if back {
		c.distrust()
	}
}

// distrust makes capture stop relying on the scans up to now: a scan may not have seen
// content that was written after it, with a ctime from before it. A scan counts again if
// it begins after the clock has passed its old time.
func (c *Capture) distrust() {
	c.opt.Logger.Warn("the clock was set back; files are copied before they are destroyed, whatever a scan saw")
	// The daemon may call BaselineDone again with the old start of its scan.
	c.moved.Store(max(time.Now().UnixNano(), c.scanBegan.Load()))
	c.baseline.Store(0)
}
