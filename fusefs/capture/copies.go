package capture

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"cachebro/fusefs"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/procfs"
	"cachebro/store/leaf/spool"
)

// job is one content to be copied into the spool.
type job struct {
	f    fusefs.File
	rec  *spool.Record // the version; its Seq is set
	done chan struct{} // closed when the content is saved or given up

	// The following fields are guarded by copies.mu.
	state jobState
	fd    *os.File // open while it is copied, or to preserve the content
	alive bool     // the file has no name, so only fd leads to its content
}

// jobState goes from queued to copying to sealed, or from queued or copying to lost.
type jobState uint8

const (
	queued  jobState = iota
	copying          // a goroutine copies the content
	sealed           // the content was copied and is unchanged; its record is being appended
	lost             // the content is being destroyed and must not be recorded
)

// copies copies contents into the spool. It has the queue and the workers, and delays operations
// that would destroy queued content.
type copies struct {
	*sink
	// root is nil if Options.Root is nil.
	root *os.Root

	mu        sync.Mutex // guards the rest except spooled, and the jobs' state
	queue     []*job
	pending   map[uint64]*job      // by node id: the newest content that is not in the spool
	byFile    map[event.Inode]*job // by inode: the same jobs, in case the kernel forgot the node id
	queuedFDs int                  // descriptors held by jobs
	closing   bool
	more      *sync.Cond  // on mu: the queue has jobs, or closing is set
	nudge     *time.Timer // set if the workers will be woken soon

	spooled atomic.Int64 // bytes
	workers sync.WaitGroup
}

func newCopies(s *sink) *copies {
	c := &copies{sink: s, root: openRoot(s.opt.Root), pending: map[uint64]*job{}, byFile: map[event.Inode]*job{}}
	c.more = sync.NewCond(&c.mu)
	return c
}

func (c *copies) start() {
	for range c.opt.Workers {
		c.workers.Go(c.work)
	}
}

// end makes the workers end once the queue is empty.
func (c *copies) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closing = true
	if c.nudge != nil {
		c.nudge.Stop()
	}
	c.more.Broadcast()
}

// admit reports whether another content may be queued. If the store is healthy but behind, admit
// waits, because slowing the writer down is better than dropping a version. If capture has stopped,
// waiting would not help.
func (c *copies) admit() bool {
	if c.queueLen() < c.opt.MaxQueue || c.roomy() == nil {
		return true // there is room in the queue; or the disk is full, and contents wait in the queue
	}
	for deadline := time.Now().Add(c.patience()); time.Now().Before(deadline) && !c.isStopped(); {
		select {
		case <-c.stop:
			return false
		case <-time.After(5 * time.Millisecond):
		}
		if c.queueLen() < c.opt.MaxQueue || c.roomy() == nil {
			return true
		}
	}
	return false
}

func (c *copies) queueLen() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queue)
}

// enqueue gives a job to the workers. If the queue is full, the caller copies the content itself,
// which slows the writer down to the speed of the disk.
func (c *copies) enqueue(j *job, soon bool) {
	id := j.f.ID()
	c.mu.Lock()
	if old := c.pending[id]; old != nil {
		// The content of an earlier close is still queued. The barrier guarantees that the file was
		// not modified since. The earlier version must be copied first.
		c.mu.Unlock()
		c.await(old, &canceller{}, false)
		c.mu.Lock()
	}
	c.pending[id] = j
	c.byFile[event.InodeOf(j.rec.Stat)] = j
	j.f.Mark().And(^fusefs.MarkTimes)
	if len(c.queue) >= c.opt.MaxQueue || c.closing {
		j.state = copying
		c.mu.Unlock()
		c.copy(j, false)
		return
	}
	c.queue = append(c.queue, j)
	if soon {
		c.nudgeLocked()
	} else {
		c.more.Signal()
	}
	c.mu.Unlock()
}

// nudgeLocked wakes the workers after nudgeAfter if the queue is not empty then. Waking a worker
// for each small file would cost more than copying the file. The caller holds mu.
func (c *copies) nudgeLocked() {
	if c.nudge != nil {
		return
	}
	c.nudge = time.AfterFunc(nudgeAfter, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.nudge = nil
		for len(c.queue) > 0 && c.queue[0].state != queued {
			c.queue[0] = nil
			c.queue = c.queue[1:]
		}
		if len(c.queue) > 0 {
			c.more.Broadcast()
		}
	})
}

func (c *copies) work() {
	pause := retryFirst
	for {
		c.mu.Lock()
		for len(c.queue) == 0 && !c.closing {
			c.more.Wait()
		}
		if len(c.queue) == 0 {
			c.mu.Unlock()
			return
		}
		j := c.queue[0]
		c.queue[0] = nil
		c.queue = c.queue[1:]
		mine := j.state == queued
		if mine {
			j.state = copying
		}
		c.mu.Unlock()
		if !mine {
			continue
		}
		if c.copy(j, true) {
			pause = retryFirst
			continue
		}
		select { // there is no room, so the content stays only in the file itself
		case <-c.stop:
		case <-time.After(pause):
			pause = min(2*pause, retryLast)
		}
	}
}

// copy copies the content of a job into the spool. The caller has set the job's state to copying.
// If there is no room and later is set, copy puts the job back into the queue and returns false. It
// reports any other failure as a gap.
func (c *copies) copy(j *job, later bool) bool { return c.copyBy(j, later, c.transfer) }

func (c *copies) copyBy(j *job, later bool, transfer func(*job) error) bool {
	err := c.roomy()
	if err == nil {
		err = transfer(j)
	}
	takesRoom := c.takesRoom(j)
	c.mu.Lock()
	if err != nil && later && c.mayWaitLocked(j, err, takesRoom) {
		j.state = queued
		if !j.alive {
			c.closeLocked(j)
		}
		c.queue = append(c.queue, j)
		c.more.Signal()
		c.mu.Unlock()
		c.fail(err)
		return false
	}
	gone := j.state == lost
	c.dropLocked(j)
	c.mu.Unlock()
	switch {
	case gone: // giveUp's caller has reported the gap
	case errors.Is(err, errTorn) && c.opt.AtOnce && j.rec.Idle: // the writer goes on, and a later version will have the content
		j.f.Mark().And(^(markSafe | markKnown))
		c.append(&spool.Record{Kind: spool.KindGap, For: j.rec.Seq, Path: j.rec.Path, Time: time.Now().UnixNano()})
	case err != nil:
		j.f.Mark().And(^(markSafe | markKnown))
		c.fail(err)
		c.gap(j.rec.Path, j.rec.Seq, reason(err))
	default:
		j.f.Mark().Or(marksOf(j.rec) & markKnown)
	}
	close(j.done)
	return true
}

// takesRoom reports whether the content of a removed file, if a descriptor preserved it, would take up
// the very space for which the spool waits.
func (c *copies) takesRoom(j *job) bool { return j.rec.Stat.Dev == c.dev && c.waitsInVain() }

// mayWaitLocked reports whether a job that failed with err can stay in the queue until there is room.
// The job of a removed file cannot stay if takesRoom is true. The caller holds mu.
func (c *copies) mayWaitLocked(j *job, err error, takesRoom bool) bool {
	if j.alive && takesRoom {
		return false
	}
	return noRoom(err) && !c.closing && j.state == copying
}

// dropLocked removes a job from the maps and closes its descriptor. The caller holds mu.
func (c *copies) dropLocked(j *job) {
	if id := j.f.ID(); c.pending[id] == j {
		delete(c.pending, id)
	}
	if key := event.InodeOf(j.rec.Stat); c.byFile[key] == j {
		delete(c.byFile, key)
	}
	c.closeLocked(j)
}

// closeLocked closes a job's descriptor. mu may be held, because closing a file that was only read
// touches no disk.
func (c *copies) closeLocked(j *job) {
	if j.fd != nil {
		j.fd.Close()
		j.fd = nil
		c.queuedFDs--
	}
}

// giveUp ends a job whose content is about to be destroyed. It returns false if the content is
// already saved or is being saved.
func (c *copies) giveUp(j *job) bool {
	c.mu.Lock()
	switch j.state {
	case queued:
		j.state = lost
		c.dropLocked(j) // the worker skips it
		close(j.done)
	case copying:
		j.state = lost
	case sealed:
		c.mu.Unlock()
		<-j.done // only a write to the page cache remains
		return false
	default: // another goroutine has given the job up
		c.mu.Unlock()
		return false
	}
	c.mu.Unlock()
	j.f.Mark().And(^(markSafe | markKnown))
	return true
}

var (
	// errTorn means that the file was changed directly in the source before its content was
	// captured.
	errTorn = errors.New("changed outside the mount before it was captured")
	errLost = errors.New("given up")
	// errBehind means that the spool is above its limit.
	errBehind = errors.New("the spool is full: the store is too slow")
)

func noRoom(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, errBehind)
}

// transfer copies the content, checks that the file did not change in the meantime, and appends the
// record.
func (c *copies) transfer(j *job) error {
	c.mu.Lock()
	f := j.fd
	c.mu.Unlock()
	if f == nil {
		var err error
		f, err = c.open(j)
		if err != nil {
			return err
		}
		c.mu.Lock()
		j.fd = f // the file may lose its name from here on; copy closes f
		c.queuedFDs++
		c.mu.Unlock()
	}
	for range 3 {
		before, err := f.Stat()
		if err != nil {
			return err
		}
		if !j.intact(before.Size(), before.ModTime().UnixNano()) {
			return errTorn
		}
		from := j.rec.TailFrom
		content, err := c.w.NewContent()
		if err != nil {
			return err
		}
		n, err := copyAll(content, io.NewSectionReader(f, from, before.Size()-from), before.Size()-from)
		if err != nil {
			content.Abort()
			return err
		}
		after, err := f.Stat()
		if err != nil || !after.ModTime().Equal(before.ModTime()) || after.Size() != before.Size() || n != before.Size()-from {
			content.Abort()
			continue
		}
		if !c.seal(j) {
			content.Abort()
			return errLost
		}
		if err := content.Commit(j.rec.Seq); err != nil {
			c.unseal(j)
			return err
		}
		c.spooled.Add(n)
		return nil
	}
	return errTorn
}

// intact reports whether size and mtime are those of the version. Queued content does not change
// through the mount, but the file's times may: tar and rsync set them.
func (j *job) intact(size, mtime int64) bool {
	return size == j.rec.Stat.Size && (mtime == j.rec.Stat.Mtime || j.f.Mark().Load()&fusefs.MarkTimes != 0)
}

// seal marks a job as one that can no longer be given up. It returns false if the job was already
// given up.
func (c *copies) seal(j *job) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if j.state != copying {
		return false
	}
	j.state = sealed
	return true
}

func (c *copies) unseal(j *job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	j.state = copying
}

var (
	smallBufs = sync.Pool{New: func() any { b := make([]byte, inlineSize); return &b }}
	largeBufs = sync.Pool{New: func() any { b := make([]byte, 512<<10); return &b }}
)

// copyAll copies at most size bytes. It is no error if there are fewer.
func copyAll(to *spool.Content, from io.Reader, size int64) (int64, error) {
	if size <= inlineSize {
		buf := smallBufs.Get().(*[]byte)
		defer smallBufs.Put(buf)
		n, err := io.ReadFull(from, (*buf)[:size])
		if err == io.ErrUnexpectedEOF || err == io.EOF {
			err = nil
		}
		if err != nil {
			return int64(n), err
		}
		_, err = to.Write((*buf)[:n])
		return int64(n), err
	}
	buf := largeBufs.Get().(*[]byte)
	defer largeBufs.Put(buf)
	return io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, *buf)
}

// reason returns the text with which a gap reports an error.
func reason(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "no space left on the state's file system"
	case errors.Is(err, syscall.ESTALE), errors.Is(err, os.ErrNotExist):
		return "the file was removed outside the mount before its content was captured"
	}
	return err.Error()
}

// settle is the barrier. It waits until the queued content of f is in the spool, and reports
// whether any was queued.
func (c *copies) settle(f fusefs.File, quit *canceller, vanishes bool) bool {
	c.mu.Lock()
	j := c.pending[f.ID()]
	some := len(c.byFile) > 0
	c.mu.Unlock()
	if j == nil && some && f.Mark().Load()&^(fusefs.MarkTimes|markBare|markFound) == 0 {
		// The kernel may have forgotten the inode while its content was queued.
		if st, err := f.Stat(); err == nil {
			c.mu.Lock()
			j = c.byFile[event.InodeOf(st)]
			c.mu.Unlock()
		}
	}
	if j != nil {
		c.await(j, quit, vanishes)
	}
	return j != nil
}

// await waits until the content of a job is saved. Small content is copied by the caller. If a file
// with larger content is about to lose its last name, await preserves the content with a descriptor
// and does not wait. It gives the content up instead if the removal must free space for the spool. If
// the content is not saved when the wait ends, await reports a gap.
func (c *copies) await(j *job, quit *canceller, vanishes bool) {
	c.mu.Lock()
	mine := j.state == queued && j.rec.Stat.Size <= inlineSize && c.roomyLast()
	if mine {
		j.state = copying
	}
	c.mu.Unlock()
	if mine && c.copy(j, true) {
		return
	}
	why := ""
	if vanishes && !c.opt.AtOnce {
		full := c.roomy()
		switch {
		case full != nil && c.takesRoom(j):
			c.fail(full)
			why = c.fullReason()
		case c.pin(j):
			return
		}
	}
	timeout := time.After(c.patience())
	for why == "" {
		select {
		case <-j.done:
			return
		case <-timeout:
			why = "changed before its content was captured: the spool is too slow"
			if c.isStopped() || c.roomy() != nil {
				why = c.fullReason()
			}
		case <-quit.ch:
			if quit.final() {
				why = "the writer was killed while its old content was being captured"
			}
		}
	}
	if c.giveUp(j) {
		c.gap(j.rec.Path, j.rec.Seq, why)
	}
}

// pin preserves the content of a job beyond the removal of the file's name, through a worker's
// descriptor or a new one. It reports whether that succeeded.
func (c *copies) pin(j *job) bool {
	c.mu.Lock()
	if j.fd != nil && j.state != lost {
		j.alive = true
		c.mu.Unlock()
		return true
	}
	try := j.state == queued && c.queuedFDs < maxHeld
	if try {
		c.queuedFDs++
	}
	c.mu.Unlock()
	if !try {
		return false
	}
	fd, err := openFile(j.f)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && j.fd == nil && j.state == queued {
		j.fd, j.alive = fd, true
		return true
	}
	c.queuedFDs--
	if err == nil {
		fd.Close() // a worker has opened the file in the meantime
	}
	if j.fd != nil && j.state != lost {
		j.alive = true
		return true
	}
	return false
}

// canceller ends a wait when the waiting process is being killed. The kernel reports every signal
// during a request as an interruption, even a harmless one: a Go program sends itself dozens of
// signals a second to switch goroutines. A harmless signal does not stop the operation, so content
// would be lost if the wait ended.
type canceller struct {
	ch  <-chan struct{}
	tid uint32 // thread of the request; 0 if unknown
}

// final reports whether to give up after ch was closed. If not, the wait continues without ch.
func (k *canceller) final() bool {
	if k.tid != 0 && !dying(k.tid) {
		k.ch = nil
		return false
	}
	return true
}

// dying reports whether a thread is being killed or is gone.
func dying(tid uint32) bool {
	killed, err := procfs.KillPending(int(tid))
	return killed || err != nil
}
