package capture

import (
	"sync"
	"sync/atomic"
	"time"

	"cachebro/store/leaf/event"
)

// scans knows which contents the daemon's scans of the project have seen. Those need not be
// copied before they are destroyed.
type scans struct {
	*sink
	clockMu sync.Mutex // guards clock; a leaf
	clock   clock

	seen  atomic.Int64 // ns; content with an older ctime was captured by a scan
	moved atomic.Int64 // ns; when a directory was last renamed
	began atomic.Int64 // ns; start of the scan that seen comes from
	// running is set while a scan runs or is expected. The scan would record files that are being
	// written without an author, so new files are reported when they are made, too.
	running atomic.Bool
}

// have reports whether a completed scan has captured the content of a file. It returns false for a
// file that is tracked only because of git's index, because it may have been added to the index
// after the scan.
func (s *scans) have(p string, st event.Stat) bool {
	s.checkClock()
	return st.Ctime != 0 && st.Ctime < s.seen.Load() && (s.opt.Matcher == nil || !s.opt.Matcher.Forced(p))
}

// end is called when a scan that began at this time has ended. If a directory was renamed during
// the scan, the scan may have missed it, so its result is not used.
func (s *scans) end(began time.Time) {
	s.running.Store(false)
	if began.UnixNano() > s.moved.Load() {
		s.began.Store(began.UnixNano())
		// A second of margin, for clock ticks and steps: copying too much is cheaper than
		// losing content.
		s.seen.Store(began.Add(-time.Second).UnixNano())
		if began.UnixNano() <= s.moved.Load() { // a directory was renamed during the scan
			s.seen.Store(0)
		}
	}
}

// relocated records that directories were moved, so that a running scan may have missed them. If
// files became tracked by the move, earlier scans do not have them either, whatever their change
// times are.
func (s *scans) relocated(intoView bool) {
	s.moved.Store(time.Now().UnixNano())
	if intoView {
		s.seen.Store(0)
	}
}

// checkClock compares the clocks. It is also called before the result of a scan is used, because
// the regular calls stop while nothing happens on the mount.
func (s *scans) checkClock() {
	now := time.Now()
	s.clockMu.Lock()
	back := s.clock.setBack(now.Round(0).Sub(s.begin.Round(0)), now.Sub(s.begin))
	s.clockMu.Unlock()
	if back {
		s.distrust()
	}
}

// distrust discards the results of all scans so far, because content that was written after a scan
// may now have a ctime from before it. A later scan counts again if it begins after the wall clock
// has passed the time that it showed before it was set back.
func (s *scans) distrust() {
	s.opt.Logger.Warn("the clock was set back; files are copied before they are destroyed, whatever a scan saw")
	// The daemon may call BaselineDone again with the old start of its scan.
	s.moved.Store(max(time.Now().UnixNano(), s.began.Load()))
	s.seen.Store(0)
}
