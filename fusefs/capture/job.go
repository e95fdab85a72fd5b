package capture

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"cachebro/fusefs"
	"cachebro/fusefs/capture/spool"
	"cachebro/fusefs/ignore"
)

// job is one content on its way into the spool.
type job struct {
	f    fusefs.File
	rec  *spool.Record // the version; its Seq is set
	done chan struct{} // closed when the content is safe or given up

	// The rest is guarded by Capture.mu.
	state jobState
	fd    *os.File // open while it is copied, or to keep content alive
	alive bool     // the content has no name any more: fd is all there is
}

// jobState goes queued → taken → sealed, or to lost from the first two.
type jobState uint8

const (
	queued jobState = iota
	taken           // somebody copies it
	sealed          // copied and unchanged: its record is being appended
	lost            // its content is being destroyed; never to be recorded
)

// identity finds a file again whose inode the kernel forgot in between and
// which then got another node id.
type identity struct {
	dev, ino uint64
	birth    int64
}

func identityOf(s spool.Stat) identity { return identity{s.Dev, s.Ino, s.Birth} }

// version appends the record of a version of f and sees to its content, if that
// is to be kept. soon: the worker need not be woken for it yet; see Released.
func (c *Capture) version(f fusefs.File, r *spool.Record, by fusefs.Caller, keep, soon bool) {
	mark := f.Mark()
	keep = keep && r.Stat.Mode&modeType == modeReg
	if keep && r.Stat.Size > c.opt.MaxFile {
		r.TooLarge, keep, r.TailFrom = true, false, 0
	}
	if keep && r.Stat.Size == 0 { // nothing to copy: version and content at once
		r.HasContent = true
		c.settle(f, &canceller{}, false) // the node's previous version keeps its place
		if !c.appendBy(by, r, &spool.Record{Kind: spool.KindContent, Time: r.Time}) {
			mark.And(^(markSafe | markKnown))
			c.gap(r.Path, 0, c.why())
			return
		}
		mark.Or(marksOf(r))
		return
	}
	if keep && !c.admit() {
		if c.appendBy(by, r) {
			c.gap(r.Path, r.Seq, c.why())
		} else {
			c.gap(r.Path, 0, c.why())
		}
		mark.And(^(markSafe | markKnown))
		return
	}
	r.HasContent = keep
	if !c.appendBy(by, r) {
		mark.And(^(markSafe | markKnown))
		c.gap(r.Path, 0, c.why())
		return
	}
	switch {
	case keep:
		mark.Or(marksOf(r) & markSafe)
		c.enqueue(&job{f: f, rec: r, done: make(chan struct{})}, soon)
	case r.TooLarge:
		mark.Or(markSafe) // said to be without content; there is nothing to save later
		mark.And(^markKnown)
	default:
		mark.And(^(markSafe | markKnown))
	}
}

// marksOf is what a version with content says of the file. Of a file without a
// tracked name that we know, the store may not keep it, and tails follow only what
// it keeps.
func marksOf(r *spool.Record) uint32 {
	switch ignore.Class(r.Class) {
	case ignore.Tracked:
		return markSafe | markKnown
	case ignore.Ignored:
		return markSafe
	}
	return 0
}

// admit reports whether one more content may be queued. While the store is healthy
// but behind, it waits: slowing the writer down is better than dropping a version.
// When capture has stopped, a wait gains nothing.
func (c *Capture) admit() bool {
	if c.queueLen() < c.opt.MaxQueue || c.roomy() == nil {
		return true // there is room, or the queue keeps it until there is
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

func (c *Capture) queueLen() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queue)
}

// enqueue gives a job to the workers. When the queue is full the caller copies
// by itself, which slows the writer down to what the disk takes.
func (c *Capture) enqueue(j *job, soon bool) {
	id := j.f.ID()
	c.mu.Lock()
	if old := c.pending[id]; old != nil {
		// Nothing was modified between two closes (the barrier), so the earlier
		// one's bytes are still there. Its version must come first.
		c.mu.Unlock()
		c.await(old, &canceller{}, false)
		c.mu.Lock()
	}
	c.pending[id] = j
	c.byFile[identityOf(j.rec.Stat)] = j
	j.f.Mark().And(^fusefs.MarkTimes)
	if len(c.queue) >= c.opt.MaxQueue || c.closing {
		j.state = taken
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

// nudgeLocked has the workers look at the queue a moment later, should nobody
// have emptied it until then: to wake one for each small file cost more than to
// copy it. mu is held.
func (c *Capture) nudgeLocked() {
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

// work is a worker.
func (c *Capture) work() {
	defer c.wg.Done()
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
			j.state = taken
		}
		c.mu.Unlock()
		if !mine {
			continue
		}
		if c.copy(j, true) {
			pause = retryFirst
			continue
		}
		select { // no room: the content stays where it is, in its file
		case <-c.stop:
		case <-time.After(pause):
			pause = min(2*pause, retryLast)
		}
	}
}

// copy brings the content of a job that the caller has taken into the spool. It
// returns false when there is no room and the job was put back, which it does only if
// later is set; any other failure is a gap.
func (c *Capture) copy(j *job, later bool) bool { return c.copyBy(j, later, c.transfer) }

// copyBy is copy with another way to transfer.
func (c *Capture) copyBy(j *job, later bool, transfer func(*job) error) bool {
	err := c.roomy()
	if err == nil {
		err = transfer(j)
	}
	c.mu.Lock()
	if err != nil && noRoom(err) && later && !c.closing && j.state == taken {
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
	case gone: // said by who gave it up
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

// dropLocked forgets a job and its descriptor. mu is held.
func (c *Capture) dropLocked(j *job) {
	if id := j.f.ID(); c.pending[id] == j {
		delete(c.pending, id)
	}
	if key := identityOf(j.rec.Stat); c.byFile[key] == j {
		delete(c.byFile, key)
	}
	c.closeLocked(j)
}

// closeLocked closes a job's descriptor. mu is held: over a close(2) of a file
// that was only read, which costs no disk.
func (c *Capture) closeLocked(j *job) {
	if j.fd != nil {
		j.fd.Close()
		j.fd = nil
		c.held--
	}
}

// giveUp ends a job whose content is about to be destroyed; false when it is
// safe after all, or will be in a moment.
func (c *Capture) giveUp(j *job) bool {
	c.mu.Lock()
	switch j.state {
	case queued:
		j.state = lost
		c.dropLocked(j) // the worker that finds it in the queue passes it by
		close(j.done)
	case taken:
		j.state = lost
	case sealed:
		c.mu.Unlock()
		<-j.done // one write to the page cache away
		return false
	default: // somebody else did
		c.mu.Unlock()
		return false
	}
	c.mu.Unlock()
	j.f.Mark().And(^(markSafe | markKnown))
	return true
}

var (
	// errTorn: the file was changed underneath.
	errTorn = errors.New("changed before it was captured, by a process that does not go through the mount")
	errLost = errors.New("given up")
	// errBehind: the spool is above its cap.
	errBehind = errors.New("the spool is full: the store does not keep up")
)

func noRoom(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, errBehind)
}

// transfer copies, checks that nobody wrote meanwhile, and appends the record.
func (c *Capture) transfer(j *job) error {
	c.mu.Lock()
	f := j.fd
	c.mu.Unlock()
	if f == nil {
		var err error
		if f, err = c.open(j); err != nil {
			return err
		}
		c.mu.Lock()
		j.fd = f // from here on the name may go: copy closes it
		c.held++
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

// intact reports whether size and mtime are those of the version. Through the
// mount nobody changes content that is queued, but its times may be set there
// (tar, rsync).
func (j *job) intact(size, mtime int64) bool {
	return size == j.rec.Stat.Size && (mtime == j.rec.Stat.Mtime || j.f.Mark().Load()&fusefs.MarkTimes != 0)
}

// seal passes the point from which a job is not given up any more.
func (c *Capture) seal(j *job) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if j.state != taken {
		return false
	}
	j.state = sealed
	return true
}

func (c *Capture) unseal(j *job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	j.state = taken
}

var (
	smallBufs = sync.Pool{New: func() any { b := make([]byte, inlineSize); return &b }}
	largeBufs = sync.Pool{New: func() any { b := make([]byte, 512<<10); return &b }}
)

// copyAll copies exactly size bytes; fewer is no error of its own.
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

// reason is an error as a gap tells it.
func reason(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "no space left on the state's file system"
	case errors.Is(err, syscall.ESTALE), errors.Is(err, os.ErrNotExist):
		return "the file went away, underneath the mount, before its content was captured"
	}
	return err.Error()
}
