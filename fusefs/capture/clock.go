package capture

import "time"

// clock notices that the wall clock was set back. A file that is written afterwards may have a
// ctime from before the scan, and would wrongly count as scanned.
type clock struct {
	ahead time.Duration // largest lead of the wall clock over the monotonic clock so far
}

// clockSlack is the largest step back that setBack ignores, because the system may slowly adjust
// the clock. It must be less than the second that scans.end subtracts.
const clockSlack = 500 * time.Millisecond

// setBack reports whether the wall clock was set back. wall and steady are how far the two clocks
// have advanced.
func (k *clock) setBack(wall, steady time.Duration) bool {
	ahead := wall - steady
	if ahead < k.ahead-clockSlack {
		k.ahead = ahead
		return true
	}
	k.ahead = max(k.ahead, ahead)
	return false
}
