//go:build linux || darwin

package fusefs

import (
	"math"
	"time"

	"cachebro/fusefs/sys"
	"cachebro/store/leaf/event"
)

// writes is the state of an inode from its first modification until its last writable handle is
// closed. inode.order guards it.
type writes struct {
	dirty     bool
	created   bool      // made through the mount and never closed
	empty     bool      // dirty only because the file was made or emptied
	last      time.Time // of the last modification
	idled     time.Time // when the content was last reported because n was idle; see dirtySet
	tail      int64     // all bytes before this offset are unchanged since the last close
	size      int64     // of the file, as far as the mount knows
	before    stamp     // of the content that the Observer last received, while n is dirty; zero if unknown
	afterLast stamp     // stamp after our last operation; updated only while tail is at least TailMin
	writer    Caller
}

// stamp identifies the content of a file.
type stamp struct{ size, mtime, ctime int64 }

func stampOf(sx *sys.Stat) stamp {
	return stamp{sx.Size, sx.Mtime, sx.Ctime}
}

// setReported stores which content was last reported to the Observer. The caller holds n.order.
func (n *inode) setReported(s stamp) {
	n.reported = nil
	if s.size >= TailMin {
		n.reported = &s
	}
}

// markDirty makes n dirty. If n was clean, the Observer first saves the old content; before is its
// stamp. The caller holds n.order.
func (o *contents) markDirty(n *inode, c Caller, op event.Op, before stamp, appends bool, cancel <-chan struct{}) *writes {
	w := n.writes
	if w == nil {
		w = &writes{}
		n.writes = w
	}
	if !w.dirty {
		// A version may store only the bytes after tail, as an addition to the previous version.
		// That is correct only if the file still has the content that the Observer last received.
		// If the file has no mark, the Observer receives the present content from the call of
		// Before below.
		sameContent := n.reported != nil && *n.reported == before || n.reported == nil && n.mark.Load() == 0
		if o.obs != nil {
			o.obs.Before(Change{File: n, Caller: c, Op: op, Append: appends, Cancel: cancel})
		}
		w.dirty = true
		o.ledger.flag(n, nodeDirty, true)
		w.tail = 0
		if sameContent {
			w.tail = math.MaxInt64
		}
		w.size = before.size
		w.afterLast, w.before = before, before
		o.dirty.add(n)
	}
	w.last = time.Now()
	if c.PID != 0 || w.writer.PID == 0 {
		w.writer = c
	}
	return w
}

// check is called just before each of our operations on the content. If a process wrote to the
// source since the last operation, check resets the tail, because the bytes before it may no longer
// be those of the last version.
//
// Changes of mode, owner, times or names through the mount look like such a write and reset the
// tail too, but they are rare between a write and the close after it.
func (w *writes) check(fd int) {
	if w.tail < TailMin {
		return
	}
	var sx sys.Stat
	if sys.StatFD(fd, &sx) != nil || stampOf(&sx) != w.afterLast {
		w.tail = 0
	}
}

// setStamp stores the stamp of the file after one of our operations.
func (w *writes) setStamp(fd int) {
	if w.tail < TailMin {
		return
	}
	var sx sys.Stat
	if sys.StatFD(fd, &sx) != nil {
		w.tail = 0
	}
	w.afterLast = stampOf(&sx)
}

func (w *writes) touched(off, end int64) {
	w.empty = false
	w.tail = min(w.tail, off, w.size)
	w.size = max(w.size, end)
}

func (w *writes) truncated(size int64) {
	w.empty = size == 0
	w.tail = min(w.tail, size, w.size)
	w.size = size
}

// neverClosed reports whether n was made through the mount and never closed. If so, the first close
// also reports its mode and owner. The caller holds n.order.
func (n *inode) neverClosed() bool { return n.writes != nil && n.writes.created }

// closeContent reports to the Observer that the content of n can be captured, if n is dirty. c is
// the process that closed n, or zero if none did. The caller holds n.order.
func (o *contents) closeContent(n *inode, c Caller, op event.Op, idle bool) {
	w := n.writes
	if w == nil || !w.dirty {
		return
	}
	gen := n.peek()
	var sx sys.Stat
	err := o.statInode(n, &sx)
	o.closeAs(n, w, o.procs.refresh(c), op, idle, false, &sx, err, gen)
}

// closeAs does the work of closeContent and closeHandle. sx holds the attributes of n, err is the
// error of reading them, and gen is what peek returned before.
func (o *contents) closeAs(n *inode, w *writes, c Caller, op event.Op, idle, held bool, sx *sys.Stat, err error, gen uint32) {
	w.dirty = false
	defer o.ledger.flag(n, nodeDirty|nodeCreated, false)
	defer o.dirty.remove(n) // deferred: n stays in the set until it has been reported
	if err != nil {
		// The file was removed in the source while it was being written.
		o.log.Warn("closed file cannot be found", "path", n.LastPath(), "err", err)
		return
	}
	n.note(sx, gen)
	now := time.Now()
	if idle {
		w.idled = now
	}
	if w.created {
		op = event.OpCreate
	}
	w.created = false
	w.size, w.before = sx.Size, stamp{}
	if o.obs == nil {
		return
	}
	if w.tail >= TailMin && stampOf(sx) != w.afterLast { // a process wrote to the source; see check
		w.tail = 0
	}
	n.setReported(stampOf(sx))
	ev := Closed{
		File: n, Caller: c, Writer: w.writer, Op: op, Stat: sx.Stat,
		TailFrom: min(w.tail, sx.Size), LastPath: n.LastPath(), Idle: idle, Held: held, Time: now,
	}
	if ev.Writer.PID != 0 && ev.Writer.PID == ev.Caller.PID && ev.Caller.Proc != nil {
		ev.Writer.Proc = ev.Caller.Proc
	}
	o.obs.Closed(ev)
}

// forgetWrites drops n.writes if n is clean and no handle can write to it. The caller holds
// n.order.
func (n *inode) forgetWrites() {
	if w := n.writes; w != nil && !w.dirty && !w.created {
		n.writes = nil
	}
}

// lock2 locks the order mutexes of both inodes, the lower id first. Either inode may be nil, and
// both may be the same. The returned function unlocks them.
func lock2(a, b *inode) func() {
	if a == b {
		b = nil
	}
	if a == nil {
		a, b = b, nil
	}
	if a == nil {
		return func() {}
	}
	if b != nil && b.id < a.id {
		a, b = b, a
	}
	a.order.Lock()
	if b == nil {
		return a.order.Unlock
	}
	b.order.Lock()
	return func() {
		b.order.Unlock()
		a.order.Unlock()
	}
}
