//go:build linux || darwin

package fusefs

import (
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"cachebro/fusefs/sys"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/ignore"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// The following functions finish requests that a killed server carried out on the source without
// answering. They update our own state and call the Observer.

// removedBefore finishes a remove that a killed server carried out.
func (o *overlay) removedBefore(in *fuse.InHeader, t *attempt, parent *inode, name string, op event.Op) fuse.Status {
	n := o.table.find(t.a)
	if n == nil {
		n = &inode{fs: o, id: o.table.nextID.Add(1), key: t.a, kind: t.mode & unix.S_IFMT, link: link{parent: parent, name: name}}
	}
	n.order.Lock()
	defer n.order.Unlock()
	sx := t.stat()
	o.nameLost(n, parent, name, &sx)
	if o.obs == nil || t.wasReported() {
		return fuse.OK
	}
	p := parent.childPath(name)
	cl := o.class(p, n.isDir())
	ev := Event{Op: op, Caller: o.caller(in, true), Path: p, Stat: sx.Stat, Class: cl, Class2: cl, Time: time.Now()}
	if op == event.OpUnlink {
		ev.File = n
	}
	o.obs.Done(ev)
	t.markDone()
	return fuse.OK
}

// renamedBefore finishes a Rename that a killed server carried out.
func (o *overlay) renamedBefore(in *fuse.RenameIn, t *attempt, r *rename, fd1, fd2 int) fuse.Status {
	exchange := in.Flags&sys.Exchange != 0
	if err := sys.StatAt(fd2, r.toName, &r.srcStat); err != nil {
		return status(err)
	}
	if keyOf(&r.srcStat) != t.a {
		return fuse.ENOENT
	}
	r.src = o.table.find(t.a)
	if r.src == nil {
		r.src = o.inodeFor(r.from, r.fromName, &r.srcStat)
	}
	replaces := false
	if t.b != (key{}) && t.b != t.a {
		r.dst = o.table.find(t.b)
		replaces = r.dst != nil && !exchange
	}
	defer lock2(r.src, r.dst)()
	ev := Event{Op: event.OpRename, File: r.src, Path: r.from.childPath(r.fromName), Path2: r.to.childPath(r.toName)}
	if r.dst != nil {
		r.dstStat.Nlink = 1
	}
	if !exchange || r.dst != nil {
		o.moveInodes(r, &ev, exchange, replaces)
	}
	if o.obs == nil || t.wasReported() {
		return fuse.OK
	}
	ev.Caller = o.caller(&in.InHeader, true)
	ev.Stat, ev.Time = r.srcStat.Stat, time.Now()
	ev.Class, ev.Class2 = o.class(ev.Path, r.src.isDir()), o.class(ev.Path2, r.src.isDir())
	if ev.Class == ignore.Excluded {
		ev.Class = ev.Class2
	}
	o.obs.Done(ev)
	reportWhiteout(o, in, r, ev, fd1)
	t.markDone()
	return fuse.OK
}

// createdBefore answers with a file that an earlier server made and opened.
func (o *overlay) createdBefore(h *handle, out *fuse.CreateOut) fuse.Status {
	var sx sys.Stat
	if err := sys.StatFD(h.fd, &sx); err != nil {
		return status(err)
	}
	o.fillEntry(h.node.id, &sx, &out.EntryOut)
	out.Fh, out.OpenFlags = h.fh, openFlags(h.node, h.flags)
	return fuse.OK
}

// unmake removes a file that an earlier server made for the same request, and reports whether there
// was such a file. That server died before it stored the open file in the ledger, so the file must
// be made again. Opening the file instead would fail if its mode denies access to the owner.
func (t *attempt) unmake(d *dirfd, name string) bool {
	var sx sys.Stat
	made := sys.StatAt(d.fd, name, &sx) == nil && t.madeEarlier(&sx, event.OpCreate)
	return made && sx.Size == 0 && sx.Nlink == 1 && unix.Unlinkat(d.fd, name, 0) == nil
}

// makes reports whether op makes files of the type in mode.
func makes(op event.Op, mode uint32) bool {
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return op == event.OpMkdir
	case unix.S_IFLNK:
		return op == event.OpSymlink
	case unix.S_IFREG:
		return op == event.OpCreate
	}
	return op == event.OpMknod
}

func (t *attempt) stat() sys.Stat {
	return sys.Stat{Stat: event.Stat{
		Dev: t.a.dev, Ino: t.a.ino, Birth: t.a.birth,
		Mode: t.mode, Nlink: t.nlink, Size: t.size, Mtime: t.mtime,
	}}
}

// resendBit (FUSE_UNIQUE_RESEND) marks a request that the kernel already sent to an earlier server,
// which died without answering.
const resendBit = 1 << 63

// attempt is a change of names that is in progress. If the server dies during the change, the
// kernel sends the same request to its successor. The successor must find out whether the change
// was already made, because a second unlink would fail, and a second exchange would undo the first.
// Repeating a write, a truncation or a change of attributes does no harm, so no attempt is recorded
// for these. An attempt ends when the reply has been written.
type attempt struct {
	unique  atomic.Uint64 // the id of the request; 0 if the slot is free
	state   atomic.Uint32 // attemptBegun, attemptReported
	server  uint32        // ledgerHead.serving when the attempt was recorded
	began   int64         // ns
	a, b    key           // the inodes that had the old name and, in a rename, the new name
	mode    uint32        // mode of the inode a
	nlink   uint32
	size    int64
	mtime   int64
	renames bool
}

// attempts is the set of opcodes that can have an attempt.
const attempts uint64 = 1<<6 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12 | 1<<13 | 1<<21 | 1<<24 | 1<<35 | 1<<45

const (
	attemptSize  = 128
	attemptCount = 256
	// attemptProbes is how many slots are tried for one attempt. There are far fewer threads than
	// slots.
	attemptProbes = 16

	attemptBegun    = 1
	attemptReported = 2 // the change was made and reported to the Observer
)

func (l *ledger) attempt(i int) *attempt {
	return (*attempt)(unsafe.Pointer(&l.mem[attemptsAt+i%attemptCount*attemptSize]))
}

// earlier returns the attempt that an earlier server recorded for the same request, or nil.
func (o *overlay) earlier(in *fuse.InHeader) *attempt {
	if in.Unique&resendBit == 0 || o.ledger == nil {
		return nil
	}
	return o.ledger.find(in.Unique)
}

// try records what a request is about to change. a is the file that has the name of the request, or
// the old name in a rename. b is the file that has the new name in a rename. The result may be nil.
func (o *overlay) try(in *fuse.InHeader, a, b *sys.Stat) *attempt {
	l := o.ledger
	if l == nil {
		return nil
	}
	if t := o.earlier(in); t != nil {
		return t
	}
	for i := range attemptProbes {
		t := l.attempt(int(in.Unique>>1) + i)
		if t.unique.Load() != 0 || !t.unique.CompareAndSwap(0, ^uint64(0)) {
			continue
		}
		t.server, t.began = l.head.serving.Load(), time.Now().UnixNano()
		t.a = key{}
		t.b = key{}
		t.mode = 0
		t.nlink = 0
		t.size = 0
		t.mtime = 0
		t.renames = b != nil
		if a != nil {
			t.a = keyOf(a)
			t.mode = a.Mode
			t.nlink = a.Nlink
			t.size = a.Size
			t.mtime = a.Mtime
		}
		if b != nil && b.Mode != 0 {
			t.b = keyOf(b)
		}
		t.state.Store(attemptBegun)
		t.unique.Store(in.Unique &^ resendBit)
		return t
	}
	return nil
}

// find returns the attempt of a request, or nil.
func (l *ledger) find(unique uint64) *attempt {
	unique &^= resendBit
	for i := range attemptProbes {
		if t := l.attempt(int(unique>>1) + i); t.unique.Load() == unique {
			return t
		}
	}
	return nil
}

// replied ends the attempt of a request, if it has one.
func (l *ledger) replied(unique uint64) {
	if t := l.find(unique); t != nil {
		t.unique.Store(0)
	}
}

// prune frees the attempts of all earlier servers except the last two, and attempts whose recording
// was not finished when a server died. It reports whether unfinished renames remain.
func (l *ledger) prune() (renames bool) {
	for i := range attemptCount {
		t := l.attempt(i)
		switch u := t.unique.Load(); {
		case u == 0:
		case u == ^uint64(0) || t.server+2 < l.head.serving.Load():
			t.unique.Store(0)
		default:
			renames = renames || t.renames && !t.wasReported()
		}
	}
	return renames
}

// markDone records that the change was made and reported to the Observer.
func (t *attempt) markDone() {
	if t != nil {
		t.state.Store(attemptReported)
	}
}

// wasReported reports whether an earlier server did everything except send the reply.
func (t *attempt) wasReported() bool { return t != nil && t.state.Load() == attemptReported }

// madeEarlier reports whether an earlier server made the file sx for the same request. Until the
// reply, the kernel prevents other processes on the mount from making the name. A file that was
// made directly in the source has an earlier birth time. A file system's clock may be one tick
// late.
func (t *attempt) madeEarlier(sx *sys.Stat, op event.Op) bool {
	const tick = int64(20 * time.Millisecond)
	return t != nil && makes(op, sx.Mode) &&
		(sx.Birth == 0 || sx.Birth >= t.began-tick)
}

// sentBack records threads whose open was refused because the file had lost its name after the
// thread looked it up. Data written to such a file would be lost. So the open fails with ESTALE,
// and the kernel looks the name up again. If the thread's next open also finds a file without a
// name, that open succeeds, because the thread may be opening exactly this file through
// /proc/self/fd.
type sentBack struct {
	any   atomic.Bool // times is not empty
	mu    sync.Mutex  // guards times
	times map[uint32]time.Time
}

const (
	lateWithin = time.Second
	maxLate    = 1000
)

// sendBack reports whether opening the file sx for writing must fail with ESTALE, so that the
// thread looks the name up again.
func (l *sentBack) sendBack(sx *sys.Stat, thread uint32) bool {
	named := sx.Nlink > 0 || !sx.IsRegular()
	if named && !l.any.Load() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	t, sent := l.times[thread]
	delete(l.times, thread)
	if !named && (!sent || now.Sub(t) > lateWithin) {
		if l.times == nil || len(l.times) >= maxLate {
			l.times = map[uint32]time.Time{}
		}
		l.times[thread] = now
	}
	_, again := l.times[thread]
	l.any.Store(len(l.times) > 0)
	return again
}
