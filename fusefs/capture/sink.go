package capture

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"cachebro/fusefs/sys"
	"cachebro/store/leaf/loop"
	"cachebro/store/leaf/spool"

	"golang.org/x/sys/unix"
)

// sink writes records to the spool. It checks whether there is room for more content, and records a
// gap for content that could not be saved.
type sink struct {
	opt  Options
	w    *spool.Writer
	stop chan struct{} // closed by Close

	mu        sync.Mutex     // guards the fields below
	unwritten []spool.Record // gaps that are not in the log yet
	counted   int64          // gaps so far
	// countedAt is the value that counted had when the state last changed.
	countedAt  int64
	dropped    int64 // gaps that did not fit into unwritten
	stopped    string
	stateSince time.Time
	hour       time.Time // start of the present hour of the ignored files' budget
	spent      int64     // bytes of that budget

	begin    time.Time
	measured atomic.Int64  // time since begin when free was measured
	dev      uint64        // device of the spool's file system
	free     atomic.Int64  // bytes on the spool's file system
	minFree  atomic.Int64  // free bytes below which nothing is spooled; see setStopped
	full     atomic.Bool   // the spool was above its limit at the last check
	healthy  atomic.Bool   // the store keeps up with the spool
	noted    chan struct{} // capacity 1; there are reads to flush, or capture has stopped; never closed
}

func newSink(o Options) *sink {
	now := time.Now()
	s := &sink{opt: o, w: o.Spool, stop: make(chan struct{}), stateSince: now, begin: now, noted: make(chan struct{}, 1)}
	s.healthy.Store(true)
	s.minFree.Store(o.MinFree)
	var dir sys.Stat
	if err := sys.StatAt(unix.AT_FDCWD, o.Spool.Dir(), &dir); err == nil {
		s.dev = dir.Dev
	}
	s.measure()
	return s
}

func (s *sink) add(st *Stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.MaxSpool = s.opt.MaxSpool
	st.Since = s.stateSince
	st.Gaps, st.PendingGaps = s.counted, int64(len(s.unwritten))+s.dropped
	if s.stopped != "" {
		st.State, st.Reason = "stopped", s.stopped
	}
}

// append appends records together. If it fails, it notes the reason and returns false.
func (s *sink) append(rs ...*spool.Record) bool {
	if _, err := s.w.Append(rs...); err != nil {
		s.fail(err)
		return false
	}
	return true
}

// gap counts a content that could not be saved, and records this gap in the log as soon as there is
// room.
func (s *sink) gap(path string, seq uint64, why string) {
	rec := spool.Record{Kind: spool.KindGap, Path: path, For: seq, Reason: why, Time: time.Now().UnixNano()}
	_, err := s.w.Append(&rec)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counted++
	switch {
	case err == nil:
		return
	case len(s.unwritten) < gapsKept:
		rec.Seq = 0
		s.unwritten = append(s.unwritten, rec)
	default:
		s.dropped++
	}
}

// writeGaps appends the gaps that could not be recorded when they happened.
func (s *sink) writeGaps() {
	s.mu.Lock()
	unwritten, dropped := s.unwritten, s.dropped
	s.unwritten, s.dropped = nil, 0
	s.mu.Unlock()
	for i := range unwritten {
		if _, err := s.w.Append(&unwritten[i]); err != nil {
			s.mu.Lock()
			s.unwritten, s.dropped = append(unwritten[i:], s.unwritten...), s.dropped+dropped
			s.mu.Unlock()
			return
		}
	}
	if dropped > 0 {
		s.append(&spool.Record{Kind: spool.KindGap, Time: time.Now().UnixNano(), Reason: fmt.Sprintf("%d more gaps, whose paths could not be recorded", dropped)})
	}
}

// fail stops capture after an error of the disk. Capture does not stop when the store is behind,
// because the store will catch up.
func (s *sink) fail(err error) {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EROFS) {
		s.setStopped(reason(err))
	}
}

// setStopped stops capture, or continues it if why is empty. A stopped capture takes no space until
// there is twice as much as it needs. Otherwise it would take the space that the user frees, and the
// store, which needs more, could never empty the spool.
func (s *sink) setStopped(why string) {
	s.mu.Lock()
	changed := (s.stopped == "") != (why == "")
	s.stopped = why
	if why != "" {
		s.minFree.Store(2 * s.opt.MinFree)
	} else {
		s.minFree.Store(s.opt.MinFree)
	}
	if changed {
		s.stateSince, s.countedAt = time.Now(), s.counted
	}
	s.mu.Unlock()
	if changed && why != "" {
		s.opt.Logger.Error("capture has stopped", "reason", why)
		s.note() // so that tick checks when capture can continue
		s.opt.OnRecord()
	} else if changed {
		s.opt.Logger.Info("capture continues")
		s.opt.OnRecord()
	}
}

func (s *sink) note() { loop.Wake(s.noted) }

func (s *sink) isStopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped != ""
}

func (s *sink) fullReason() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped != "" {
		return s.stopped
	}
	return errBehind.Error()
}

// roomy returns nil if the spool has room for more content, otherwise an error with the reason.
func (s *sink) roomy() error {
	s.measure()
	if s.free.Load() < s.minFree.Load() {
		return syscall.ENOSPC
	}
	full := s.w.Size() > s.opt.MaxSpool
	s.full.Store(full)
	if full {
		s.w.CloseIdle()
		return errBehind
	}
	return nil
}

// roomyLast reports whether there was room at the last check. It may be called while mu is held.
func (s *sink) roomyLast() bool { return s.free.Load() >= s.minFree.Load() && !s.full.Load() }

// waitRoom waits until the spool may grow. It is called only for content that is about to be
// destroyed. Other content can stay in its file until there is room.
func (s *sink) waitRoom(quit *canceller) bool {
	err := s.roomy()
	if errors.Is(err, syscall.ENOSPC) {
		s.fail(err)
		return false
	}
	for deadline := time.Now().Add(s.patience()); err != nil; err = s.roomy() {
		if !time.Now().Before(deadline) {
			return false
		}
		select {
		case <-quit.ch:
			if quit.final() {
				return false
			}
		case <-s.stop:
			return false
		case <-time.After(5 * time.Millisecond):
		}
	}
	return true
}

// spend takes n bytes from the hourly budget for ignored files, whose size is budget. It returns
// false if fewer than n bytes are left.
func (s *sink) spend(n, budget int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); now.Sub(s.hour) > time.Hour || now.Before(s.hour) {
		s.hour, s.spent = now, 0
	}
	if s.spent+n > budget {
		return false
	}
	s.spent += n
	return true
}

// measure reads the free space of the spool's file system, unless it was just read.
func (s *sink) measure() {
	now, at := int64(time.Since(s.begin)), s.measured.Load()
	if at != 0 && now-at < int64(readsEvery)/2 || !s.measured.CompareAndSwap(at, now) {
		return
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(s.w.Dir(), &fs); err != nil {
		s.fail(err)
		return
	}
	s.free.Store(int64(fs.Bavail) * int64(fs.Bsize))
}

// tryResume lets a stopped capture continue if it can write some content as a test. Writing a
// record would prove nothing, because the space for records is allocated in advance.
func (s *sink) tryResume() {
	if s.free.Load() < s.minFree.Load() {
		return
	}
	content, err := s.w.NewContent()
	if err != nil {
		return
	}
	_, err = content.Write(make([]byte, inlineSize))
	content.Abort()
	if err != nil {
		return
	}
	s.mu.Lock()
	why, since, missed := s.stopped, s.stateSince, s.counted-s.countedAt
	s.mu.Unlock()
	line := fmt.Sprintf("capture continues; it was stopped from %s to %s (%s), and %d contents were not saved",
		since.Format(time.TimeOnly), time.Now().Format(time.TimeOnly), why, missed)
	if _, err := s.w.Append(&spool.Record{Kind: spool.KindNotice, Time: time.Now().UnixNano(), Reason: line}); err == nil {
		s.setStopped("")
		s.writeGaps()
	}
}

// waitsInVain reports whether it is useless to wait for room in the spool, because the disk is full
// or the store accepts nothing.
func (s *sink) waitsInVain() bool {
	return !s.healthy.Load() || s.isStopped() || s.free.Load() < s.minFree.Load()
}

// patience returns how long an operation may have to wait.
func (s *sink) patience() time.Duration {
	if s.waitsInVain() {
		return waitFailed
	}
	return waitHealthy
}

// SetHealthy sets whether the store keeps up with the spool.
func (s *sink) SetHealthy(ok bool, reason string) {
	if s.healthy.Swap(ok) != ok {
		s.opt.Logger.Info("store", "healthy", ok, "reason", reason)
	}
}
