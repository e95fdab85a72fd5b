package capture

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"cachebro/fusefs/capture/spool"
)

// append appends records together; false when it could not, which is counted as
// a reason to stop.
func (c *Capture) append(rs ...*spool.Record) bool {
	if _, err := c.w.Append(rs...); err != nil {
		c.fail(err)
		return false
	}
	return true
}

// gap counts content that was not kept and puts it into the log, now or when
// there is room again.
func (c *Capture) gap(path string, seq uint64, why string) {
	rec := spool.Record{Kind: spool.KindGap, Path: path, For: seq, Reason: why, Time: time.Now().UnixNano()}
	_, err := c.w.Append(&rec)
	c.gapMu.Lock()
	defer c.gapMu.Unlock()
	c.counted++
	switch {
	case err == nil:
		return
	case len(c.unsaid) < gapsKept:
		rec.Seq = 0
		c.unsaid = append(c.unsaid, rec)
	default:
		c.dropped++
	}
}

// sayGaps appends the gaps that could not be said when they came to be.
func (c *Capture) sayGaps() {
	c.gapMu.Lock()
	unsaid, dropped := c.unsaid, c.dropped
	c.unsaid, c.dropped = nil, 0
	c.gapMu.Unlock()
	for i := range unsaid {
		if _, err := c.w.Append(&unsaid[i]); err != nil {
			c.gapMu.Lock()
			c.unsaid, c.dropped = append(unsaid[i:], c.unsaid...), c.dropped+dropped
			c.gapMu.Unlock()
			return
		}
	}
	if dropped > 0 {
		c.append(&spool.Record{Kind: spool.KindGap, Time: time.Now().UnixNano(), Reason: fmt.Sprintf("%d more gaps, whose paths could not be kept", dropped)})
	}
}

// fail notes why nothing can be kept, if err is of that kind. A store that is
// behind is none: it catches up, and writers wait for it.
func (c *Capture) fail(err error) {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EROFS) {
		c.setStopped(reason(err))
	}
}

func (c *Capture) setStopped(why string) {
	c.gapMu.Lock()
	changed := (c.stopped == "") != (why == "")
	c.stopped = why
	if changed {
		c.since, c.countedAt = time.Now(), c.counted
	}
	c.gapMu.Unlock()
	if changed && why != "" {
		c.opt.Logger.Error("capture has stopped", "reason", why)
		c.note() // to look for its end
		c.opt.Stirred()
	} else if changed {
		c.opt.Logger.Info("capture goes on")
		c.opt.Stirred()
	}
}

// note wakes tick.
func (c *Capture) note() {
	select {
	case c.noted <- struct{}{}:
	default:
	}
}

func (c *Capture) isStopped() bool {
	c.gapMu.Lock()
	defer c.gapMu.Unlock()
	return c.stopped != ""
}

// why is the reason for which there is no room.
func (c *Capture) why() string {
	c.gapMu.Lock()
	defer c.gapMu.Unlock()
	if c.stopped != "" {
		return c.stopped
	}
	return errBehind.Error()
}

// roomy says what stands against one more content in the spool.
func (c *Capture) roomy() error {
	c.measure()
	if c.free.Load() < c.opt.MinFree {
		return syscall.ENOSPC
	}
	full := c.w.Size() > c.opt.MaxSpool
	c.full.Store(full)
	if full {
		c.w.LeaveIdle()
		return errBehind
	}
	return nil
}

// roomyLast is roomy as of the last time somebody looked; mu may be held.
func (c *Capture) roomyLast() bool { return c.free.Load() >= c.opt.MinFree && !c.full.Load() }

// waitRoom waits until the spool may grow. Closed contents that are queued have
// their files to lie in; what asks here is about to be destroyed.
func (c *Capture) waitRoom(quit *canceller) bool {
	err := c.roomy()
	if errors.Is(err, syscall.ENOSPC) {
		c.fail(err)
		return false
	}
	for deadline := time.Now().Add(c.patience()); err != nil; err = c.roomy() {
		if !time.Now().Before(deadline) {
			return false
		}
		select {
		case <-quit.ch:
			if quit.final() {
				return false
			}
		case <-c.stop:
			return false
		case <-time.After(5 * time.Millisecond):
		}
	}
	return true
}

// spend takes bytes from the hourly budget of ignored files.
func (c *Capture) spend(n int64) bool {
	c.gapMu.Lock()
	defer c.gapMu.Unlock()
	if now := time.Now(); now.Sub(c.hour) > time.Hour || now.Before(c.hour) {
		c.hour, c.spent = now, 0
	}
	if c.spent+n > c.opt.IgnoredHourly {
		return false
	}
	c.spent += n
	return true
}

// measure looks at the free space of the spool's file system, unless somebody
// just did.
func (c *Capture) measure() {
	now, at := int64(time.Since(c.begin)), c.measured.Load()
	if at != 0 && now-at < int64(readsEvery)/2 || !c.measured.CompareAndSwap(at, now) {
		return
	}
	var s syscall.Statfs_t
	if err := syscall.Statfs(c.w.Dir(), &s); err != nil {
		c.fail(err)
		return
	}
	c.free.Store(int64(s.Bavail) * int64(s.Bsize))
}

// tick does what is due while something happens on the mount, and a little
// longer. At rest it waits for the next record or read: an idle mount has no timer.
func (c *Capture) tick() {
	defer c.wg.Done()
	for {
		select {
		case <-c.stop:
			return
		case <-c.w.Stirred():
			c.opt.Stirred()
		case <-c.noted:
		}
		if !c.lookAround() {
			return
		}
		c.opt.Rested()
	}
}

// lookAround sees to reads, free space, gaps, the end of a stop, and durability,
// until nothing has happened for restAfter; false at the end of capture.
func (c *Capture) lookAround() bool {
	t := time.NewTicker(readsEvery)
	defer t.Stop()
	stirred := time.Now()
	for synced, seq := stirred, uint64(0); ; {
		select {
		case <-c.stop:
			return false
		case <-c.noted:
			stirred = time.Now()
			continue
		case <-t.C:
		}
		now := time.Now()
		c.flushReads()
		c.measure()
		c.checkClock()
		if c.isStopped() {
			stirred = now
			c.tryResume()
		}
		select {
		case <-c.w.Stirred():
			stirred = now
			c.opt.Stirred()
		default:
		}
		if now.Sub(synced) >= syncEvery {
			synced = now
			if last := c.w.LastSeq(); last != seq {
				seq = last
				if err := c.w.Sync(last); err != nil {
					c.fail(err)
					stirred = now
				}
			} else {
				c.w.LeaveIdle() // what the store has read needs no second copy here
			}
		}
		if now.Sub(stirred) >= restAfter {
			return true
		}
	}
}

// tryResume ends a stop when a content could be written: a record alone would
// prove nothing, its space was allocated before.
func (c *Capture) tryResume() {
	if c.free.Load() < 2*c.opt.MinFree {
		return
	}
	content, err := c.w.NewContent()
	if err != nil {
		return
	}
	_, err = content.Write(make([]byte, inlineSize))
	content.Abort()
	if err != nil {
		return
	}
	c.gapMu.Lock()
	why, since, missed := c.stopped, c.since, c.counted-c.countedAt
	c.gapMu.Unlock()
	line := fmt.Sprintf("capture goes on; it was stopped from %s to %s (%s), %d contents were not kept",
		since.Format(time.TimeOnly), time.Now().Format(time.TimeOnly), why, missed)
	if _, err := c.w.Append(&spool.Record{Kind: spool.KindNotice, Time: time.Now().UnixNano(), Reason: line}); err == nil {
		c.setStopped("")
		c.sayGaps()
	}
}
