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
	// running: a scan is under way or will come. It would attribute files that are being
	// written to nobody, so new files are reported when they are made, too.
	running atomic.Bool
}

// have reports whether a completed scan has the content of a file. A file that is tracked
// only because of git's index may have become so after the scan.
func (s *scans) have(p string, st event.Stat) bool {
	s.checkClock()
	return st.Ctime != 0 && st.Ctime < s.seen.Load() && (s.opt.Matcher == nil || !s.opt.Matcher.Forced(p))
}

// end notes that a scan which began at this time has ended. A directory that was renamed
// meanwhile may have escaped it, so such a scan is not relied on.
func (s *scans) end(began time.Time) {
	s.running.Store(false)
	if began.UnixNano() > s.moved.Load() {
		s.began.Store(began.UnixNano())
		// A second of margin, for clock ticks and steps: copying too much is cheaper than
		// losing content.
		s.seen.Store(began.Add(-time.Second).UnixNano())
		if began.UnixNano() <= s.moved.Load() { // a rename came in between
			s.seen.Store(0)
		}
	}
}

// relocated notes that directories were moved, so that a scan under way may have missed
// them. If files became tracked by the move, no earlier scan has them either, whatever
// their change times say.
func (s *scans) relocated(intoView bool) {
	s.moved.Store(time.Now().UnixNano())
	if intoView {
		s.seen.Store(0)
	}
}

// checkClock compares the clocks. It is also called before a scan is relied on, because
// nobody calls it while the mount is at rest.
func (s *scans) checkClock() {
	now := time.Now()
	s.clockMu.Lock()
	back := s.clock.setBack(now.Round(0).Sub(s.begin.Round(0)), now.Sub(s.begin))
	s.clockMu.Unlock()
	if back {
		s.distrust()
	}
}

// distrust makes capture stop relying on the scans up to now: a scan may not have seen
// content that was written after it, with a ctime from before it. A scan counts again if
// it begins after the clock has passed its old time.
func (s *scans) distrust() {
	s.opt.Logger.Warn("the clock was set back; files are copied before they are destroyed, whatever a scan saw")
	// The daemon may call BaselineDone again with the old start of its scan.
	s.moved.Store(max(time.Now().UnixNano(), s.began.Load()))
	s.seen.Store(0)
}
