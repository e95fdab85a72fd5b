package mountd

import (
	"time"

	"cachebro/fusefs"
	"cachebro/fusefs/ignore"
	"cachebro/store/spool"
)

// Before saves the content that is about to be destroyed.
func (c *Capture) Before(ch fusefs.Change) {
	p := ch.File.Path()
	if p == "" {
		return
	}
	class := c.classOf(p, false)
	if class == ignore.Excluded {
		return
	}
	vanishes := ch.Op == fusefs.OpUnlink || ch.Op == fusefs.OpRename
	mark := ch.File.Mark()
	quit := &canceller{ch.Cancel, ch.Caller.TID}
	if mark.Load()&markSafe != 0 {
		c.settle(ch.File, quit, vanishes)
	} else if !c.saveUnknown(ch, quit, p, class, vanishes) {
		return
	}
	if vanishes {
		return
	}
	c.append(&spool.Record{Kind: spool.KindDirty, Class: spool.Class(class), Path: p, Node: ch.File.ID(), Time: time.Now().UnixNano()})
	mark.And(^markSafe)
}

// saveUnknown deals with content that, as far as the marks know, is in no
// version. It reports false when another name keeps the content.
func (c *Capture) saveUnknown(ch fusefs.Change, quit *canceller, p string, class ignore.Class, vanishes bool) bool {
	st, err := ch.File.Stat()
	if err != nil {
		c.opt.Logger.Debug("before", "path", p, "err", err)
		return true
	}
	if vanishes && st.Nlink > 1 {
		return false
	}
	if ch.File.Mark().Load() == 0 {
		// Perhaps the kernel forgot the inode while its content is queued.
		c.mu.Lock()
		j := c.byFile[identityOf(stat(st))]
		c.mu.Unlock()
		if j != nil {
			c.await(j, quit, vanishes)
			return true
		}
	}
	if class == ignore.Ignored || !c.scanned(p, st) {
		c.save(ch, quit, p, st, class, vanishes)
	}
	return true
}

// scanned reports whether a completed baseline has the content. Files that only
// git's index makes tracked may have become so after it.
func (c *Capture) scanned(p string, st fusefs.Stat) bool {
	return st.Ctime != 0 && st.Ctime < c.baseline.Load() && (c.opt.Matcher == nil || !c.opt.Matcher.Forced(p))
}

// found records the present content of f as a baseline if no version has it.
func (c *Capture) found(f fusefs.File, p string, class ignore.Class) {
	if class != ignore.Tracked || f.Mark().Load()&markSafe != 0 {
		return
	}
	st, err := f.Stat()
	if err != nil || !isRegular(st) || c.scanned(p, st) {
		return
	}
	c.version(f, baseline(f, p, st, class), fusefs.Caller{}, class, false)
}

func baseline(f fusefs.File, p string, st fusefs.Stat, class ignore.Class) *spool.Record {
	return &spool.Record{Kind: spool.KindVersion, Op: spool.OpBaseline, Class: spool.Class(class), Path: p, Node: f.ID(), Stat: stat(st), Time: time.Now().UnixNano()}
}

// save records the content of a file that nobody has captured so far. Content
// that stays where it is must be in the spool before this returns: an append
// would leave it a prefix, but the writes that follow are not announced.
func (c *Capture) save(ch fusefs.Change, quit *canceller, p string, st fusefs.Stat, class ignore.Class, vanishes bool) {
	if !isRegular(st) {
		return
	}
	r := baseline(ch.File, p, st, class)
	limit := c.opt.MaxFile
	if class == ignore.Ignored {
		limit = c.opt.MaxIgnored
	}
	if st.Size > limit {
		r.TooLarge = true
		c.append(r)
		return
	}
	if class == ignore.Ignored && !c.spend(st.Size) {
		c.gap(p, 0, "the hourly budget for ignored files is spent")
		return
	}
	if !c.waitRoom(quit) {
		c.gap(p, 0, c.why())
		return
	}
	r.HasContent = true
	if st.Size == 0 {
		if c.append(r, &spool.Record{Kind: spool.KindContent, Time: r.Time}) {
			ch.File.Mark().Or(markKnown)
		} else {
			c.gap(p, 0, c.why())
		}
		return
	}
	if !c.append(r) {
		c.gap(p, 0, c.why())
		return
	}
	j := &job{f: ch.File, rec: r, done: make(chan struct{})}
	c.enqueue(j, false)
	c.await(j, quit, vanishes)
}

// settle waits until the queued content of f is safe: the barrier.
func (c *Capture) settle(f fusefs.File, quit *canceller, vanishes bool) {
	c.mu.Lock()
	j := c.pending[f.ID()]
	c.mu.Unlock()
	if j != nil {
		c.await(j, quit, vanishes)
	}
}

// await sees a job through: small content is copied at once by who needs it,
// larger content that vanishes stays alive by a descriptor of ours, and for the
// rest the caller waits. What is not safe when the wait ends is a gap.
func (c *Capture) await(j *job, quit *canceller, vanishes bool) {
	c.mu.Lock()
	mine := j.state == queued && j.rec.Stat.Size <= inlineSize && c.roomyQuick()
	if mine {
		j.state = taken
	}
	c.mu.Unlock()
	if mine && c.copy(j, true) {
		return
	}
	if vanishes && c.hold(j) {
		return
	}
	t := time.NewTimer(c.patience())
	defer t.Stop()
	why := ""
	for why == "" {
		select {
		case <-j.done:
			return
		case <-t.C:
			if why = "the spool is too slow: changed before the content was captured"; c.isStopped() || c.roomy() != nil {
				why = c.why()
			}
		case <-quit.ch:
			if quit.final() {
				why = "the writer was killed while the old content was being captured"
			}
		}
	}
	if c.giveUp(j) {
		c.gap(j.rec.Path, j.rec.Seq, why)
	}
}

// hold sees to it that the content of a job outlives its name, by the
// descriptor of who copies it or by one more. It reports whether that is so.
func (c *Capture) hold(j *job) bool {
	c.mu.Lock()
	if j.fd != nil && j.state != lost {
		j.alive = true
		c.mu.Unlock()
		return true
	}
	try := j.state == queued && c.held < c.opt.MaxHeld
	if try {
		c.held++
	}
	c.mu.Unlock()
	if !try {
		return false
	}
	fd, err := j.f.Open()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && j.fd == nil && j.state == queued {
		j.fd, j.alive = fd, true
		return true
	}
	c.held--
	if err == nil {
		fd.Close() // a worker was faster
	}
	if j.fd != nil && j.state != lost {
		j.alive = true
		return true
	}
	return false
}
