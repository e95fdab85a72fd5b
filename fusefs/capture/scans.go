package capture

import (
	"sync"
	"sync/atomic"
	"time"

	"cachebro/store/leaf/event"
	"cachebro/store/leaf/spool"
)

// scans records which contents the daemon's scans have captured. These contents need not be copied
// before they are destroyed.
type scans struct {
	*sink
	clockMu sync.Mutex // guards clock; a leaf lock
	clock   clock

	seen  atomic.Int64 // ns; contents with an older ctime are captured
	moved atomic.Int64 // ns; when a directory was last renamed
	began atomic.Int64 // ns; start of the scan that set seen
	// running is set while a scan runs or is expected. A scan cannot record who writes a file. So
	// while a scan runs, a new file is reported when it is made, not only when it is closed.
	running atomic.Bool
	// revealed is when ignored files last became tracked; ns. Only a scan that began later counts.
	revealed atomic.Int64
	// introducing is set while introduce is about to run.
	introducing atomic.Bool
	// introduce reports the files that are being written.
	introduce func()
}

// captured reports whether a completed scan captured the content of a file. It returns false for a
// file that is tracked only because it is in git's index, because the file may have been added to
// the index after the scan.
func (s *scans) captured(p string, st event.Stat) bool {
	s.checkClock()
	return st.Ctime != 0 && st.Ctime < s.seen.Load() && (s.opt.Matcher == nil || !s.opt.Matcher.Forced(p))
}

// end records that a scan has ended. began is when that scan started. If a directory was renamed
// during the scan, the scan may have missed the directory, so the result is not used.
func (s *scans) end(began time.Time) {
	if began.UnixNano() <= s.revealed.Load() {
		return
	}
	s.running.Store(false)
	if began.UnixNano() > s.moved.Load() {
		s.began.Store(began.UnixNano())
		// Subtract a second, for clock ticks and small steps of the clock.
		s.seen.Store(began.Add(-time.Second).UnixNano())
		if began.UnixNano() <= s.moved.Load() { // a directory was renamed since the first check
			s.seen.Store(0)
		}
	}
}

// relocated records that directories were moved, so a running scan may have missed them. If
// intoView is set, untracked files, which earlier scans skipped, may have become tracked. The daemon
// then scans again.
func (s *scans) relocated(intoView bool) {
	s.moved.Store(time.Now().UnixNano())
	if intoView {
		s.revealed.Store(time.Now().UnixNano())
		s.seen.Store(0)
		s.append(&spool.Record{Kind: spool.KindBeside, Op: event.OpBaseline, Time: time.Now().UnixNano()})
		if s.introducing.CompareAndSwap(false, true) {
			s.introduce()
		}
	}
}

// checkClock compares the clocks. It is also called before a scan's result is used, because
// periodic work stops on an idle mount.
func (s *scans) checkClock() {
	now := time.Now()
	s.clockMu.Lock()
	back := s.clock.setBack(now.Round(0).Sub(s.begin.Round(0)), now.Sub(s.begin))
	s.clockMu.Unlock()
	if back {
		s.distrust()
	}
}

// distrust discards the results of all scans, because content written from now on may get a ctime
// from before the scans. The result of a later scan is used only if the scan begins after the wall
// clock has reached its earlier time again.
func (s *scans) distrust() {
	s.opt.Logger.Warn("the clock was set back; files are copied before they are destroyed, even if a scan has captured them")
	// The daemon may once more report the end of a scan that began before the clock was set back.
	// Setting moved makes end ignore it.
	s.moved.Store(max(time.Now().UnixNano(), s.began.Load()))
	s.seen.Store(0)
}
