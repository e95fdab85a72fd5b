package capture

import (
	"context"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cachebro/fusefs"
	"cachebro/fusefs/capture/spool"
	"cachebro/fusefs/ignore"
)

// Capture implements fusefs.Observer.
type Capture struct {
	discarded discarded

	opt Options
	w   *spool.Writer
	// root is nil without Options.Root.
	root *os.Root
	comm string // of this program

	mu      sync.Mutex // guards queue, pending, byFile, held, closing, nudge and the jobs' state
	queue   []*job
	pending map[uint64]*job   // by node id: its newest content, while not in the spool
	byFile  map[identity]*job // the same by what survives a forgotten inode
	held    int               // descriptors in jobs
	closing bool
	more    *sync.Cond  // on mu: the queue has something, or closing
	nudge   *time.Timer // set while the workers are to look at the queue soon

	procMu sync.Mutex // guards procs
	procs  map[procKey]told

	readMu sync.Mutex // guards reads
	reads  map[uint32]*reading

	gapMu   sync.Mutex     // guards the fields below
	unsaid  []spool.Record // gaps that are not in the log yet
	counted int64
	// countedAt is counted when the state last changed.
	countedAt int64
	dropped   int64 // of unsaid, for want of room
	stopped   string
	since     time.Time
	hour      time.Time // begin of the ignored files' budget
	spent     int64     // of it

	begin    time.Time
	clockMu  sync.Mutex // guards clock
	clock    clock
	measured atomic.Int64  // when free was, since begin
	noted    chan struct{} // capacity 1: there are reads to flush, or capture has stopped; never closed

	spooled   atomic.Int64
	free      atomic.Int64 // bytes on the spool's file system
	full      atomic.Bool  // the spool was above its cap when last looked at
	healthy   atomic.Bool
	baseline  atomic.Int64 // ns; files with an older ctime are known
	moved     atomic.Int64 // ns; when a directory was renamed last
	scanBegan atomic.Int64 // ns; of the scan that baseline is about
	// scanning: a scan is under way or will be, which would take what is being
	// written for nobody's, so that files are told of when they are made, too.
	scanning atomic.Bool

	stop  chan struct{} // closed by Close
	wg    sync.WaitGroup
	syncs sync.WaitGroup // Synced's goroutines
	once  sync.Once
}

var (
	_ fusefs.Observer  = (*Capture)(nil)
	_ fusefs.Describer = (*Capture)(nil)
)

// New begins to capture: it announces the mount in the spool and starts the workers.
func New(o Options) *Capture {
	o = o.withDefaults()
	c := &Capture{opt: o, w: o.Spool, root: openRoot(o.Root), pending: map[uint64]*job{}, byFile: map[identity]*job{}, procs: map[procKey]told{}, reads: map[uint32]*reading{}, since: time.Now(), begin: time.Now(), noted: make(chan struct{}, 1), stop: make(chan struct{})}
	c.more = sync.NewCond(&c.mu)
	if b, err := os.ReadFile("/proc/self/comm"); err == nil {
		c.comm = strings.TrimSpace(string(b))
	}
	c.healthy.Store(true)
	c.scanning.Store(true)
	c.measure()
	c.append(&spool.Record{Kind: spool.KindMount, Time: time.Now().UnixNano(), Mountpoint: o.Mountpoint, Source: o.Source, Version: o.Version})
	for range o.Workers {
		c.wg.Add(1)
		go c.work()
	}
	c.wg.Add(1)
	go c.tick()
	return c
}

// Close waits until everything queued is in the spool, or ctx ends, and says
// that the mount ended in order. No event may come afterwards.
func (c *Capture) Close(ctx context.Context) error {
	first := false
	c.once.Do(func() { first = true })
	if !first {
		return nil
	}
	c.flushReads()
	c.mu.Lock()
	c.closing = true
	if c.nudge != nil {
		c.nudge.Stop()
	}
	c.more.Broadcast()
	c.mu.Unlock()
	close(c.stop)
	done := make(chan struct{})
	go func() { c.wg.Wait(); c.syncs.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		return ctx.Err()
	}
	if c.root != nil {
		c.root.Close()
	}
	c.sayGaps()
	if _, err := c.w.Append(&spool.Record{Kind: spool.KindUnmount, Time: time.Now().UnixNano()}); err != nil {
		return err
	}
	return c.w.Sync(c.w.LastSeq())
}

// SetHealthy tells whether the store takes what we spool.
func (c *Capture) SetHealthy(ok bool, reason string) {
	if c.healthy.Swap(ok) != ok {
		c.opt.Logger.Info("store", "healthy", ok, "reason", reason)
	}
}

// Introduce is called before a store daemon hears of us, which begins with a scan:
// it tells of everything that is being written. An earlier daemon knew, and an
// earlier mountd's files are still open.
func (c *Capture) Introduce(eachDirty func(func(fusefs.File))) {
	c.scanning.Store(true)
	eachDirty(func(f fusefs.File) { c.dirty(f) })
	c.append(&spool.Record{Kind: spool.KindDirty, Time: time.Now().UnixNano()})
}

// Scanning is called when the daemon has no scan that is done. What is being
// written then has been told, unless it is new.
func (c *Capture) Scanning(eachDirty func(func(fusefs.File))) {
	if !c.scanning.Load() {
		c.Introduce(eachDirty)
	}
}

// dirty tells that a file is being written, under each of its names.
func (c *Capture) dirty(f fusefs.File) {
	for _, p := range f.Paths() {
		if class := c.classOf(p, false); class != ignore.Excluded {
			c.append(&spool.Record{Kind: spool.KindDirty, Class: spool.Class(class), Path: p, Node: f.ID(), Time: time.Now().UnixNano()})
		}
	}
}

// BaselineDone says that a scan which began at that time has captured every tracked
// file: a file with an older ctime need not be copied before it is destroyed. A
// directory that was renamed meanwhile may have escaped the scan, so such a scan is
// not relied on.
func (c *Capture) BaselineDone(began time.Time) {
	c.scanning.Store(false)
	if began.UnixNano() > c.moved.Load() {
		c.scanBegan.Store(began.UnixNano())
		// A clock tick and a step of the clock are cheaper to copy than to lose.
		c.baseline.Store(began.Add(-time.Second).UnixNano())
		if began.UnixNano() <= c.moved.Load() { // just now
			c.baseline.Store(0)
		}
	}
}

// Stats of capture.
func (c *Capture) Stats() Stats {
	c.mu.Lock()
	s := Stats{State: "capturing", Queue: len(c.pending), Held: c.held, Spooled: c.spooled.Load()}
	c.mu.Unlock()
	c.gapMu.Lock()
	defer c.gapMu.Unlock()
	s.Gaps, s.PendingGaps, s.Since = c.counted, int64(len(c.unsaid))+c.dropped, c.since
	if c.stopped != "" {
		s.State, s.Reason = "stopped", c.stopped
	}
	return s
}

// Closed records content that was closed.
func (c *Capture) Closed(e fusefs.Closed) {
	mark := e.File.Mark()
	p, class := c.nameOf(e.File)
	if p != "" {
		c.rule(p)
	}
	// Perhaps the store knows a tracked name of it.
	keep := class == ignore.Tracked || unseen(e.File, e.Stat)
	if p == "" || class == ignore.Excluded && !keep {
		mark.And(^(markSafe | markKnown))
		if p == "" && mark.Load()&markTaken != 0 {
			c.afterwards(e)
		}
		return
	}
	by := writerOf(e)
	r := &spool.Record{Kind: spool.KindVersion, Op: spool.Op(e.Op), Class: spool.Class(class), Path: p, Node: e.File.ID(), Stat: c.whole(e.File, e.Stat), Time: e.Time.UnixNano(), Idle: e.Idle}
	if class == ignore.Tracked && mark.Load()&markKnown != 0 && e.TailFrom >= fusefs.TailMin && e.Stat.Nlink < 2 && e.TailFrom <= e.Stat.Size {
		r.TailFrom = e.TailFrom
	}
	c.version(e.File, r, by, keep, e.Held && e.Stat.Size <= inlineSize)
	if mark.Load()&markSynced != 0 {
		mark.And(^markSynced)
		c.settle(e.File, &canceller{ch: c.stop}, false)
		c.sync()
	}
}

func writerOf(e fusefs.Closed) fusefs.Caller {
	if e.Writer.PID != 0 {
		return e.Writer
	}
	return e.Caller
}

// taken notes that a plan of ours took a file's last name. Whoever has it open
// goes on to write where nobody finds it.
func (c *Capture) taken(f fusefs.File, by fusefs.Caller) {
	if f != nil && by.Proc != nil && by.Proc.Comm == c.comm && f.Path() == "" {
		f.Mark().Or(markTaken)
	}
}

// afterwards keeps what was written to a file whose name a plan had taken, under
// a name that says so and is gone at once.
func (c *Capture) afterwards(e fusefs.Closed) {
	if c.classOf(e.LastPath, false) != ignore.Tracked {
		return
	}
	by, mark := writerOf(e), e.File.Mark()
	name := e.LastPath + " (written after its name was taken)"
	if mark.Load()&markTold == 0 {
		mark.Or(markTold)
		c.appendBy(by, &spool.Record{Kind: spool.KindNotice, Path: e.LastPath, Time: e.Time.UnixNano(), Reason: e.LastPath + " was open for writing when its name was taken; what was written to it since is kept as " + strconv.Quote(name)})
	}
	r := &spool.Record{Kind: spool.KindVersion, Op: spool.OpCreate, Path: name, Node: e.File.ID(), Stat: stat(e.Stat), Time: e.Time.UnixNano(), Idle: e.Idle}
	c.version(e.File, r, by, true, false)
	c.settle(e.File, &canceller{ch: c.stop}, true) // its last descriptor may be about to go
	c.appendBy(by, &spool.Record{Kind: spool.KindVersion, Op: spool.OpUnlink, Path: name, Node: e.File.ID(), Stat: stat(e.Stat), Time: e.Time.UnixNano(), LastName: true})
}

// Outside records that a file was changed underneath.
func (c *Capture) Outside(f fusefs.File, before, after fusefs.Stat) {
	p, class := c.nameOf(f)
	keep := class == ignore.Tracked || unseen(f, after)
	if p == "" || class == ignore.Excluded && !keep {
		return
	}
	if f.Mark().Load()&markSafe == 0 && !c.scanned(p, before) && before.Size > 0 {
		c.gap(p, 0, "changed underneath, by a process that does not go through the mount, before its content was captured")
	}
	f.Mark().And(^(markSafe | markKnown | markBare))
	c.version(f, &spool.Record{Kind: spool.KindVersion, Op: spool.OpOutside, Class: spool.Class(class), Path: p, Node: f.ID(), Stat: c.whole(f, after), Time: time.Now().UnixNano()}, fusefs.Caller{}, keep, false)
}

// Synced returns when the content of f is durable in the spool. The version
// that is made when f is closed next follows by itself.
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
	select { // interrupted, but perhaps only by a harmless signal
	case <-done:
	case <-time.After(waitFailed):
	}
}

// sync makes everything so far durable, in a goroutine that Close waits for,
// and returns a channel that is closed then.
func (c *Capture) sync() <-chan struct{} {
	done := make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing { // Close syncs
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

// patience is how long an operation may be held up.
func (c *Capture) patience() time.Duration {
	if !c.healthy.Load() || c.isStopped() || c.free.Load() < c.opt.MinFree {
		return waitFailed
	}
	return waitHealthy
}

const (
	modeType = 0o170000
	modeDir  = 0o040000
	modeReg  = 0o100000
	modeLink = 0o120000
)

func isDir(s fusefs.Stat) bool     { return s.Mode&modeType == modeDir }
func isRegular(s fusefs.Stat) bool { return s.Mode&modeType == modeReg }

func stat(s fusefs.Stat) spool.Stat {
	return spool.Stat{Dev: s.Dev, Ino: s.Ino, Birth: s.Birth, Mode: s.Mode, Nlink: s.Nlink, UID: s.UID, GID: s.GID, Size: s.Size, Mtime: s.Mtime, Ctime: s.Ctime}
}
