package capture

import (
	"context"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"cachebro/fusefs"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/ignore"
	"cachebro/store/leaf/procfs"
	"cachebro/store/leaf/spool"
)

// Capture implements fusefs.Observer.
type Capture struct {
	discarded discarded
	git       *gitKeeper
	boundary  boundary

	*sink
	*copies
	recorded recordedNames
	lines    *lines
	comm     string

	procMu sync.Mutex // guards procs
	procs  map[procKey]spooledProcess

	readMu   sync.Mutex // guards readings
	readings map[uint32]*reading

	scans     scans
	eachDirty atomic.Pointer[func(func(fusefs.File))] // as passed to Introduce
	watched   atomic.Bool                             // Beside is called for all changes that bypass the mount

	ticker    sync.WaitGroup
	syncs     sync.WaitGroup // the goroutines of Synced and introduceAgain
	closeOnce sync.Once
}

var (
	_ fusefs.Observer  = (*Capture)(nil)
	_ fusefs.Describer = (*Capture)(nil)
)

// New announces the mount in the spool and starts the workers.
func New(o Options) *Capture {
	o = o.withDefaults()
	s := newSink(o)
	c := &Capture{sink: s, scans: scans{sink: s}, copies: newCopies(s), git: newGitKeeper(o.Git), procs: map[procKey]spooledProcess{}, readings: map[uint32]*reading{}, lines: newLines()}
	c.comm, _ = procfs.Comm(os.Getpid())
	c.scans.running.Store(!o.AtOnce) // with AtOnce, a new file is not reported before its first version
	c.scans.introduce = func() { introduceAgain(c) }
	c.append(&spool.Record{Kind: spool.KindMount, Time: time.Now().UnixNano(), Mountpoint: o.Mountpoint, Source: o.Source, Version: o.Version})
	c.copies.start()
	c.ticker.Go(c.tick)
	return c
}

// Close waits until everything queued is in the spool, or ctx ends, and records that the mount
// ended in an orderly way. No event may be reported afterwards.
func (c *Capture) Close(ctx context.Context) error {
	first := false
	c.closeOnce.Do(func() { first = true })
	if !first {
		return nil
	}
	c.flushReads()
	c.copies.end()
	close(c.stop)
	done := make(chan struct{})
	go func() { c.copies.workers.Wait(); c.ticker.Wait(); c.syncs.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		return ctx.Err()
	}
	if c.root != nil {
		c.root.Close()
	}
	c.lines.close()
	c.writeGaps()
	if _, err := c.w.Append(&spool.Record{Kind: spool.KindUnmount, Time: time.Now().UnixNano()}); err != nil {
		return err
	}
	return c.w.Sync(c.w.LastSeq())
}

// Introduce reports all files that are being written. It is called before mountd attaches to a
// daemon, because that daemon begins with a scan and may not know of these files.
func (c *Capture) Introduce(eachDirty func(func(fusefs.File))) {
	c.eachDirty.Store(&eachDirty)
	c.scans.running.Store(true)
	eachDirty(func(f fusefs.File) { c.dirty(f) })
	c.append(&spool.Record{Kind: spool.KindDirty, Time: time.Now().UnixNano()})
}

// introduceAgain reports all files that are being written, before the daemon scans again.
// Otherwise the scan would take a new file among them for one that existed before. The goroutine is
// necessary because the caller may hold the lock of such a file.
func introduceAgain(c *Capture) {
	c.syncs.Go(func() {
		c.scans.introducing.Store(false)
		if each := c.eachDirty.Load(); each != nil { // otherwise mountd has not attached, which begins with a scan
			c.Introduce(*each)
		}
	})
}

// Scanning reports the files being written if the daemon has no completed scan, unless a scan was
// already expected.
func (c *Capture) Scanning(eachDirty func(func(fusefs.File))) {
	if !c.scans.running.Load() {
		c.Introduce(eachDirty)
	}
}

// dirty reports that a file is being written, under the name by which the file is recorded. If it
// has several names, the daemon recognises the others by the inode.
func (c *Capture) dirty(f fusefs.File) {
	p, class := c.nameOf(f, "")
	if class == ignore.Excluded {
		return
	}
	r := &spool.Record{Kind: spool.KindDirty, Class: class, Path: p, Node: f.ID(), Time: time.Now().UnixNano()}
	if len(f.Paths(2)) > 1 {
		st, err := f.Stat()
		if err == nil {
			r.Stat = st
		}
	}
	c.append(r)
}

// BaselineDone records that a scan has captured every tracked file. began is when that scan
// started. A file with an older ctime need not be copied before it is destroyed.
func (c *Capture) BaselineDone(began time.Time) {
	c.recorded.clear() // so that Found records names again if the scan found another state
	c.scans.end(began)
}

// Stats returns the state and counters of capture.
func (c *Capture) Stats() Stats {
	c.copies.mu.Lock()
	s := Stats{State: "capturing", Queue: len(c.pending), Held: c.queuedFDs, Spooled: c.spooled.Load()}
	c.copies.mu.Unlock()
	c.sink.add(&s)
	return s
}

// Closed records content that was closed.
func (c *Capture) Closed(e fusefs.Closed) {
	mark := e.File.Mark()
	p, class := c.nameOf(e.File, "")
	if p != "" {
		c.rule(p)
	}
	if p != "" && class == ignore.Excluded && c.planned(writerOf(e), p, false) {
		class = ignore.Ignored
	}
	// Keep the content if the file has names that the mount has not seen, because one of these
	// names may be tracked.
	keep := class == ignore.Tracked || unseen(e.File, e.Stat)
	if class == ignore.Excluded {
		c.gitClosed(e, p)
	}
	if class == ignore.Excluded && !keep {
		mark.And(^(markSafe | markKnown))
		if p == "" && mark.Load()&markTaken != 0 {
			c.saveAfterRemoval(e)
		}
		return
	}
	by := writerOf(e)
	r := &spool.Record{Kind: spool.KindVersion, Op: e.Op, Class: class, Path: p, Node: e.File.ID(), Stat: e.Stat, Time: e.Time.UnixNano(), Idle: e.Idle}
	appended := fusefs.TailMin <= e.TailFrom && e.TailFrom <= e.Stat.Size
	if appended && class == ignore.Tracked && mark.Load()&markKnown != 0 && e.Stat.Nlink < 2 {
		r.TailFrom = e.TailFrom
	}
	c.version(e.File, r, by, keep, e.Held && e.Stat.Size <= inlineSize)
	if p == "" {
		c.settle(e.File, &canceller{ch: c.stop}, true) // the file's last descriptor may be about to be closed
	}
	if mark.Load()&markSynced != 0 {
		mark.And(^markSynced)
		c.settle(e.File, &canceller{ch: c.stop}, false)
		c.sync()
	}
}

// version appends the record of a version of f with the file's extended attributes, and queues its
// content if keep is set. If soon is set, no worker is woken yet; see Released.
func (c *Capture) version(f fusefs.File, r *spool.Record, by fusefs.Caller, keep, soon bool) {
	mark := f.Mark()
	keep = keep && r.Stat.IsRegular()
	if keep && r.Stat.Size > c.opt.MaxFile {
		keep = false
		r.TooLarge, r.TailFrom = true, 0
	}
	if keep && c.appendWhole(f, r, by) {
		return
	}
	r.Stat = withXattrs(f, r.Stat)
	if keep && !c.admit() {
		if c.appendBy(by, r) {
			c.gap(r.Path, r.Seq, c.fullReason())
		} else {
			c.gap(r.Path, 0, c.fullReason())
		}
		mark.And(^(markSafe | markKnown))
		return
	}
	r.HasContent = keep
	if !c.appendBy(by, r) {
		mark.And(^(markSafe | markKnown))
		c.gap(r.Path, 0, c.fullReason())
		return
	}
	switch {
	case keep:
		mark.Or(marksOf(r) & markSafe)
		c.enqueue(&job{f: f, rec: r, done: make(chan struct{})}, soon)
	case r.TooLarge:
		mark.Or(markSafe) // recorded without content, so there is nothing to save later
		mark.And(^markKnown)
	default:
		mark.And(^(markSafe | markKnown))
	}
}

// marksOf returns the marks that a version with content sets on its file. If no name is tracked,
// the store may drop the content, so the next version must not store only a tail.
func marksOf(r *spool.Record) uint32 {
	switch r.Class {
	case ignore.Tracked:
		return markSafe | markKnown
	case ignore.Ignored:
		return markSafe
	}
	return 0
}

func writerOf(e fusefs.Closed) fusefs.Caller {
	if e.Writer.PID != 0 {
		return e.Writer
	}
	return e.Caller
}

// removedByPlan marks a file whose last name was removed by one of cachebro's plans, because a
// process that has the file open may go on writing to it.
func (c *Capture) removedByPlan(f fusefs.File, by fusefs.Caller) {
	if f != nil && c.ours(by) && f.Path() == "" {
		f.Mark().Or(markTaken)
	}
}

// ours reports whether a process runs this program. Such a process may be carrying out a plan.
func (c *Capture) ours(by fusefs.Caller) bool { return by.Proc != nil && by.Proc.Comm == c.comm }

// planned reports whether a change of the excluded name p, outside of git's directories, may belong
// to one of cachebro's plans. If so, planned adds p to the boundary, because a redo must find the
// file.
func (c *Capture) planned(by fusefs.Caller, p string, dir bool) bool {
	if !c.ours(by) || inGit(p) {
		return false
	}
	c.enterBoundary(p, dir, false)
	return true
}

// saveAfterRemoval saves what is written to a file after a plan removed its last name. The content
// is recorded under a special name, and the removal of that name is recorded immediately.
func (c *Capture) saveAfterRemoval(e fusefs.Closed) {
	if c.Class(e.LastPath, false) != ignore.Tracked {
		return
	}
	by, mark := writerOf(e), e.File.Mark()
	name := e.LastPath + " (written after its name was taken)"
	if mark.Load()&markNoticed == 0 {
		mark.Or(markNoticed)
		c.appendBy(by, &spool.Record{Kind: spool.KindNotice, Path: e.LastPath, Time: e.Time.UnixNano(), Reason: e.LastPath + " was open for writing when cachebro removed its name; later writes to it are saved as " + strconv.Quote(name)})
	}
	r := &spool.Record{Kind: spool.KindVersion, Op: event.OpCreate, Path: name, Node: e.File.ID(), Stat: e.Stat, Time: e.Time.UnixNano(), Idle: e.Idle}
	c.version(e.File, r, by, true, false)
	c.settle(e.File, &canceller{ch: c.stop}, true)
	c.appendBy(by, &spool.Record{Kind: spool.KindVersion, Op: event.OpUnlink, Path: name, Node: e.File.ID(), Stat: e.Stat, Time: e.Time.UnixNano(), LastName: true})
}

// Outside records that a file was changed directly in the source. If the source is watched, Beside
// records the change with its author instead.
func (c *Capture) Outside(f fusefs.File, before, after event.Stat) {
	if c.watched.Load() {
		f.Mark().And(^(markSafe | markKnown | markBare))
		return
	}
	p, class := c.nameOf(f, "")
	keep := class == ignore.Tracked || unseen(f, after)
	if p == "" || class == ignore.Excluded && !keep {
		return
	}
	// If only the ctime changed, the content is still there: an overlayfs copies a file when the mount
	// opens it for writing, and a chmod changes no content.
	changed := before.Size != after.Size || before.Mtime != after.Mtime
	unsaved := f.Mark().Load()&markSafe == 0 && !c.scans.captured(p, before) && before.Size > 0
	if changed && unsaved {
		c.gap(p, 0, "changed outside the mount before its content was captured")
	}
	f.Mark().And(^(markSafe | markKnown | markBare))
	c.version(f, &spool.Record{Kind: spool.KindVersion, Op: event.OpOutside, Class: class, Path: p, Node: f.ID(), Stat: after, Time: time.Now().UnixNano()}, fusefs.Caller{}, keep, false)
}

// Synced returns when the content of f is durable in the spool. It also sets markSynced, so that
// the version of the next close becomes durable too.
func (c *Capture) Synced(f fusefs.File, cancel <-chan struct{}) {
	f.Mark().Or(markSynced)
	c.settle(f, &canceller{}, false)
	done := c.sync()
	select {
	case <-done:
		return
	case <-time.After(c.patience()):
		return
	case <-cancel:
	}
	select { // the request was interrupted, perhaps by a harmless signal
	case <-done:
	case <-time.After(waitFailed):
	}
}

// sync makes everything recorded so far durable in a goroutine that Close waits for. The returned
// channel is closed when that is done.
func (c *Capture) sync() <-chan struct{} {
	done := make(chan struct{})
	c.copies.mu.Lock()
	defer c.copies.mu.Unlock()
	if c.closing { // Close itself syncs
		close(done)
		return done
	}
	c.syncs.Add(1)
	go func() {
		defer c.syncs.Done()
		defer close(done)
		if err := c.w.Sync(c.w.LastSeq()); err != nil {
			c.fail(err)
		}
	}()
	return done
}

// tick does periodic work while something happens on the mount, and a little longer. After that it
// waits for the next record or read, so that an idle mount has no timer.
func (c *Capture) tick() {
	for {
		select {
		case <-c.stop:
			return
		case <-c.w.Appended():
			c.opt.OnRecord()
		case <-c.noted:
		}
		if !c.lookAround() {
			return
		}
		c.opt.OnIdle()
	}
}

// lookAround does the periodic work of tick until nothing has happened for restAfter. It flushes
// reads, checks the free space, records gaps, resumes a stopped capture, and syncs. It returns
// false when capture is closed.
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
		c.scans.checkClock()
		if c.isStopped() {
			stirred = now
			c.tryResume()
		}
		select {
		case <-c.w.Appended():
			stirred = now
			c.opt.OnRecord()
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
				c.w.CloseIdle() // the store has read those records
			}
		}
		if now.Sub(stirred) >= restAfter {
			return true
		}
	}
}
