//go:build !portable

package fusefs

import (
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"cachebro/fusefs/sys"
	"cachebro/store/leaf/loop"
	"cachebro/store/leaf/procfs"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// # Locks
//
// A lock taken on the mount is also taken on the source file, so that it excludes processes that
// bypass the mount. A flock(2) lock belongs to an open file and is taken on the descriptor of its
// handle. A POSIX lock belongs to a process, an OFD lock to an open file. The kernel sends both in
// the same form, with a number for the owner. For each owner we open a descriptor of the source
// file and take OFD locks on it.
//
// The descriptors are sent to the FDStore before a lock is taken on them, so that the locks outlive
// a killed server. The locks of a descriptor are read from /proc/self/fdinfo and recorded nowhere
// else.
//
// A request that waits for a lock occupies no thread, because it is answered later. The lock is
// tried again whenever a lock of the same file changes on the mount. If a process that bypasses the
// mount holds the lock, a timer tries again.
//
// OFD locks, and POSIX locks of a read-only descriptor, end with the RELEASE of their handle.
// close(2) does not wait for the RELEASE, so the file can seem locked a moment longer. See lingers.

// forwardsLocks is true because the kernel is asked to send lock requests.
const forwardsLocks = true

const (
	// The shortest and the longest pause before retrying a lock that a process holds on the source
	// directly.
	lockPause    = time.Millisecond
	maxLockPause = 64 * time.Millisecond
	// How long to retry if the lock may belong to a closed handle: lingerWait, or up to
	// maxLingerWait while a RELEASE is being handled. The kernel sends the RELEASE before the lock
	// request, so some thread has already read the RELEASE. It may not yet count as being handled,
	// so lock requests are retried for lingerWait in any case.
	lingerWait    = time.Millisecond
	maxLingerWait = 100 * time.Millisecond
)

type locking struct {
	mu      sync.Mutex // guards the fields below and those of lockedFile; held only over calls that do not block
	files   map[*inode]*lockedFile
	waiting map[uint64]*lockWait // by the id of the request
	closed  bool

	fineTimes     bool // see the method fineTimes
	fineTimesOnce sync.Once

	answer    func(unique uint64, st fuse.Status)
	releasing func() bool // reports whether a RELEASE is being handled
}

// lockedFile is an inode that a process has locked or waits to lock.
type lockedFile struct {
	n       *inode
	owners  map[uint64]*lockOwner
	flocks  map[*handle]bool
	waiters []*lockWait // in order of arrival
	timer   *time.Timer // nil if it is not running
	pause   time.Duration

	// These fields are used only for a file through which processes share memory (sharesMemory).
	// guard locks the whole file on the source against processes that bypass the mount. Instead of
	// the source file, the owners then lock arena, a file in memory. No lock is granted until the
	// kernel has dropped the pages that it cached before the guard was taken. Then agreed is set,
	// and no process that bypasses the mount changes the file until the guard ends.
	guard    *lockOwner
	arena    int
	agreed   bool
	agreeing bool // a thread is dropping the pages
}

// lockOwner holds the POSIX or OFD locks that one owner has on a file.
type lockOwner struct {
	id       uint64
	key      uint64 // the FDStore's number for fd
	fd       int
	pid      uint32
	borrowed *handle           // fd duplicates this handle's descriptor, because the file could not be opened again
	via      map[uint64]uint32 // handles through which the owner has locked, and their slots in the ledger
}

// lockWait is a SETLKW request that is answered later.
type lockWait struct {
	in fuse.LkIn
	f  *lockedFile
	h  *handle // with a reference
	// blockedBy is the owner on the mount whose lock conflicts. It is used to detect deadlocks: a
	// wait that would never end is refused, as the kernel does.
	blockedBy *lockOwner
}

// memoryRange recognises by its name a file through which processes share memory: SQLite's index of
// the write-ahead log or LMDB's table of readers. It returns the range of bytes that processes lock
// before they use the memory.
//
// The mount and the source have separate pages in memory, and writes to mappings cannot be
// observed. So at any one time, either processes on the mount or processes that bypass it can use
// such a file. The others find it locked.
func memoryRange(n *inode) (first, last uint64, shared bool) {
	name := n.LastPath()
	switch {
	case strings.HasSuffix(name, "-shm"):
		return 120, 128, true
	case name == "lock.mdb", strings.HasSuffix(name, "/lock.mdb"), strings.HasSuffix(name, "-lock"):
		return 0, 0, true
	}
	return 0, 0, false
}

// sharesMemory reports whether a request is for a lock that processes take before they use shared
// memory. A request for other bytes of such a file is treated like one for an ordinary file.
func sharesMemory(n *inode, in *fuse.LkIn) bool {
	first, last, shared := memoryRange(n)
	return shared && in.Lk.Start >= first && in.Lk.End <= last
}

// uncached reports whether read(2) and write(2) of n may have to bypass the kernel's cache, because
// some processes can reach the source without going through the mount. With the cache, these
// processes and those on the mount would not see each other's writes, and reads could end early at
// an outdated size. The caller asks this for a file that was locked, that was just changed in the
// source, or that is opened for reading and writing, as databases do.
func (n *inode) uncached() bool {
	if !n.isReg() || !n.fs.bypassable.Load() {
		return false
	}
	_, _, shared := memoryRange(n)
	return !shared
}

func isFlock(in *fuse.LkIn) bool { return in.LkFlags&fuse.LK_FLOCK != 0 }

// ofdLock converts the lock of a request to the form of fcntl(2).
func ofdLock(lk *fuse.FileLock) unix.Flock_t {
	fl := unix.Flock_t{Type: int16(lk.Typ), Start: int64(lk.Start)}
	if lk.End < math.MaxInt64 {
		fl.Len = int64(lk.End-lk.Start) + 1
	}
	return fl
}

func wholeFile(typ int16) unix.Flock_t { return unix.Flock_t{Type: typ} }

// setOFD takes or releases an OFD lock without waiting.
func setOFD(fd int, fl unix.Flock_t) error {
	err := loop.Retry(func() error { return unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &fl) })
	if err == unix.EACCES {
		err = unix.EAGAIN
	}
	return err
}

// GetLk finds a lock that conflicts with the requested one.
func (o *overlay) GetLk(_ <-chan struct{}, in *fuse.LkIn, out *fuse.LkOut) fuse.Status {
	h := o.handles.get(in.Fh)
	if h == nil || h.fd < 0 || !h.acquire() {
		return fuse.EBADF
	}
	defer h.release()
	l := &o.locking
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.files[h.node]
	fd := h.fd
	if f != nil {
		if w := f.owners[in.Owner]; w != nil {
			fd = w.fd
		} else if f.guard != nil {
			fd = f.arena
		}
	}
	fl := ofdLock(&in.Lk)
	if err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &fl); err != nil {
		return status(err)
	}
	if fl.Type == unix.F_UNLCK {
		out.Lk = fuse.FileLock{Typ: unix.F_UNLCK}
		return fuse.OK
	}
	out.Lk = fuse.FileLock{Typ: uint32(fl.Type), Start: uint64(fl.Start), End: math.MaxInt64, Pid: uint32(max(fl.Pid, 0))}
	if fl.Len > 0 {
		out.Lk.End = uint64(fl.Start + fl.Len - 1)
	}
	if f != nil && fl.Pid < 0 {
		if w := f.ownerOf(&fl); w != nil {
			out.Lk.Pid = w.pid
		}
	}
	return fuse.OK
}

// SetLk takes or releases a lock without waiting.
func (o *overlay) SetLk(_ <-chan struct{}, in *fuse.LkIn) fuse.Status {
	for began, pause := time.Now(), 50*time.Microsecond; ; pause *= 2 {
		releasing := o.locking.releasing() // read before the try, to cover a RELEASE that ends during it
		st := o.lock(in, false)
		took := time.Since(began)
		if st != fuse.EAGAIN || took > maxLingerWait || took > lingerWait && !releasing {
			return st
		}
		if !o.lingers(in) {
			return st
		}
		time.Sleep(pause)
	}
}

// SetLkw takes a lock. A request that has to wait is answered later (statusLater). If an INTERRUPT
// arrives before the wait is registered, it only closes cancel. The kernel sends no second
// INTERRUPT, so cancel must be checked here, or the process could not be killed.
func (o *overlay) SetLkw(cancel <-chan struct{}, in *fuse.LkIn) fuse.Status {
	unique := in.Unique // in may be reused once another thread has replied
	st := o.lock(in, true)
	if st != statusLater {
		return st
	}
	select {
	case <-cancel:
		o.interrupted(unique)
	default:
	}
	return st
}

func (o *overlay) lock(in *fuse.LkIn, wait bool) fuse.Status {
	h := o.handles.get(in.Fh)
	if h == nil || h.fd < 0 || !h.acquire() {
		return fuse.EBADF
	}
	n, l := h.node, &o.locking
	n.locked.Store(true) // set before the lock is taken, because opens and closes may run concurrently
	if l.has(h, in) {
		o.noteLocked(h)
	}
	l.mu.Lock()
	f := l.file(n)
	st := o.tryLock(f, h, in)
	if f.guard != nil && !f.agreed && !f.agreeing {
		f.agreeing = true
		l.mu.Unlock()
		o.agreeAll(n)
		l.mu.Lock()
		f.agreeing, f.agreed = false, true
		if st == fuse.EAGAIN { // the guard came from an earlier server, so tryLock had to refuse until the pages were dropped
			st = o.tryLock(f, h, in)
		}
	}
	if st == fuse.EAGAIN && wait {
		st = l.mayWait(f, in)
		if st.Ok() {
			w := &lockWait{in: *in, f: f, h: h, blockedBy: f.blocker(in)}
			f.waiters = append(f.waiters, w)
			l.waiting[in.Unique] = w
			f.pause = lockPause
			l.watchOthers(o, f)
			l.mu.Unlock()
			return statusLater // the wait now owns the reference to h
		}
	}
	guarded := f.guard != nil
	granted := l.retry(o, f)
	l.tidy(f)
	l.mu.Unlock()
	o.grant(granted)
	if st.Ok() && in.Lk.Typ != unix.F_UNLCK && !guarded {
		o.agreeLocked(h)
	}
	h.release()
	return st
}

func (l *locking) file(n *inode) *lockedFile {
	f := l.files[n]
	if f == nil {
		f = &lockedFile{n: n, owners: map[uint64]*lockOwner{}, flocks: map[*handle]bool{}, arena: -1}
		if l.files == nil {
			l.files, l.waiting = map[*inode]*lockedFile{}, map[uint64]*lockWait{}
		}
		l.files[n] = f
	}
	return f
}

// tidy drops the lockedFile of an inode that has no locks.
func (l *locking) tidy(f *lockedFile) {
	if len(f.owners)+len(f.flocks)+len(f.waiters) > 0 || f.agreeing {
		return
	}
	if f.timer != nil {
		f.timer.Stop()
		f.timer = nil
	}
	if l.files[f.n] == f {
		delete(l.files, f.n)
	}
}

// tryLock takes or releases a lock on the source. EAGAIN means that another lock conflicts.
func (o *contents) tryLock(f *lockedFile, h *handle, in *fuse.LkIn) fuse.Status {
	if isFlock(in) {
		return o.tryFlock(f, h, in.Lk.Typ)
	}
	if (f.agreeing || f.guard != nil && !f.agreed) && in.Lk.Typ != unix.F_UNLCK {
		return fuse.EAGAIN
	}
	w := f.owners[in.Owner]
	if w == nil {
		if in.Lk.Typ == unix.F_UNLCK {
			return fuse.OK
		}
		if st := o.guardMemory(f, h, in); !st.Ok() {
			return st
		}
		var err error
		w, err = o.newLockOwner(f, h, in)
		if err != nil {
			o.dropGuard(f)
			return status(err)
		}
		f.owners[in.Owner] = w
	}
	if _, ok := w.via[h.fh]; !ok {
		w.via[h.fh] = o.ledger.lock(w.id, w.key, w.pid, f.n, h.fh)
	}
	if in.Lk.Pid != 0 { // a request to unlock contains no process id
		w.pid = in.Lk.Pid
	}
	return status(setOFD(w.fd, ofdLock(&in.Lk)))
}

// tryFlock takes or releases a lock of flock(2) on the source.
func (o *contents) tryFlock(f *lockedFile, h *handle, typ uint32) fuse.Status {
	how := map[uint32]int{unix.F_RDLCK: unix.LOCK_SH, unix.F_WRLCK: unix.LOCK_EX, unix.F_UNLCK: unix.LOCK_UN}[typ]
	if typ != unix.F_UNLCK && o.fdStore != nil && !h.stored.Swap(true) && !o.fdStore.Keep(h.fh, h.fd) {
		h.stored.Store(false)
	}
	err := loop.Retry(func() error { return unix.Flock(h.fd, how|unix.LOCK_NB) })
	// The kernel does not convert a lock atomically. If the conversion fails, the earlier lock is
	// lost too.
	if err == nil && typ != unix.F_UNLCK {
		f.flocks[h] = true
	} else {
		delete(f.flocks, h)
	}
	return status(err)
}

// newLockOwner opens the descriptor of an owner.
func (o *contents) newLockOwner(f *lockedFile, h *handle, in *fuse.LkIn) (*lockOwner, error) {
	w := &lockOwner{id: in.Owner, pid: in.Lk.Pid, key: o.handles.next.Add(1), via: map[uint64]uint32{}}
	from := h.fd
	if f.guard != nil {
		from = f.arena
	}
	var err error
	w.fd, err = sys.OpenAgain(from, unix.O_RDWR)
	if err != nil && f.guard == nil {
		w.fd, err = sys.OpenAgain(from, int(h.flags)&unix.O_ACCMODE)
	}
	if err != nil {
		// The file cannot be opened again, so the handle's descriptor is used. A second owner of
		// that descriptor would share the first one's locks.
		for _, other := range f.owners {
			if other.borrowed == h {
				return nil, unix.ENOLCK
			}
		}
		w.borrowed = h
		w.fd, err = unix.FcntlInt(uintptr(h.fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
	}
	if o.fdStore != nil {
		o.fdStore.Keep(w.key, w.fd)
	}
	return w, nil
}

// guardMemory locks a file of shared memory against all processes that bypass the mount.
func (o *contents) guardMemory(f *lockedFile, h *handle, in *fuse.LkIn) fuse.Status {
	if f.guard != nil || !sharesMemory(f.n, in) {
		return fuse.OK
	}
	// If the file is read-only for us, a read lock suffices. Writers that bypass the mount need a
	// write lock, which conflicts.
	typ := int16(unix.F_WRLCK)
	fd, err := sys.OpenAgain(h.fd, unix.O_RDWR)
	if err != nil {
		typ = unix.F_RDLCK
		fd, err = sys.OpenAgain(h.fd, unix.O_RDONLY)
		if err != nil {
			return fuse.Status(unix.ENOLCK)
		}
	}
	if err := setOFD(fd, wholeFile(typ)); err != nil {
		unix.Close(fd)
		return status(err)
	}
	arena, err := sys.Memory("cachebro-locks")
	if err != nil {
		unix.Close(fd)
		return status(err)
	}
	f.arena, f.agreed = arena, false
	f.guard = &lockOwner{key: o.handles.next.Add(1), fd: fd, via: map[uint64]uint32{}}
	if o.fdStore != nil {
		o.fdStore.Keep(f.guard.key, fd)
	}
	f.guard.via[0] = o.ledger.lock(0, f.guard.key, 0, f.n, 0)
	f.n.spoil() // writes to mappings that bypass the mount do not change the file's times, so peek and note cannot detect them
	return fuse.OK
}

// dropGuard releases the guard when no process on the mount uses the shared memory any more.
func (o *contents) dropGuard(f *lockedFile) {
	if f.guard == nil || len(f.owners) > 0 {
		return
	}
	o.dropOwner(f.guard)
	unix.Close(f.arena)
	f.guard, f.arena = nil, -1
}

// dropOwner releases an owner's locks explicitly. Closing w.fd would not be enough, because a copy
// in the FDStore or the handle's descriptor would still hold the locks.
func (o *contents) dropOwner(w *lockOwner) {
	_ = setOFD(w.fd, wholeFile(unix.F_UNLCK))
	unix.Close(w.fd)
	if o.fdStore != nil {
		o.fdStore.Drop(w.key)
	}
	for _, slot := range w.via {
		o.ledger.drop(slot)
	}
}

// unlockOwner releases the POSIX locks of a process that closes a descriptor of the file.
func (o *overlay) unlockOwner(h *handle, owner uint64) {
	if n := h.node; n.locked.Load() {
		o.noteLocked(h)
		o.unlock(n, func(w *lockOwner) bool { return w.id == owner }, nil)
	}
}

// unlockHandle releases the locks that belong to an open file.
func (o *overlay) unlockHandle(h *handle) {
	if h.node.locked.Load() {
		o.noteLocked(h)
		o.unlock(h.node, func(w *lockOwner) bool { _, ok := w.via[h.fh]; return ok }, h)
	}
}

// unlock releases the locks of all owners for which ends returns true, and the flock(2) lock of h.
func (o *overlay) unlock(n *inode, ends func(*lockOwner) bool, h *handle) {
	l := &o.locking
	l.mu.Lock()
	f := l.files[n]
	if f == nil {
		l.mu.Unlock()
		return
	}
	for id, w := range f.owners {
		if ends(w) {
			o.dropOwner(w)
			delete(f.owners, id)
		}
	}
	o.dropGuard(f)
	if h != nil && f.flocks[h] {
		_ = unix.Flock(h.fd, unix.LOCK_UN)
		delete(f.flocks, h)
	}
	granted := l.retry(o, f)
	l.tidy(f)
	l.mu.Unlock()
	o.grant(granted)
}

// lockGrant is the reply to a request that has waited.
type lockGrant struct {
	w       *lockWait
	st      fuse.Status
	guarded bool
}

// retry tries the waiting requests again in order of arrival.
func (l *locking) retry(o *overlay, f *lockedFile) (granted []lockGrant) {
	if l.closed {
		return nil
	}
	f.waiters = slices.DeleteFunc(f.waiters, func(w *lockWait) bool {
		st := o.tryLock(f, w.h, &w.in)
		if st == fuse.EAGAIN {
			by := f.blocker(&w.in)
			if by == w.blockedBy || !l.deadlocks(f, &w.in) {
				w.blockedBy = by
				return false
			}
			st = fuse.Status(unix.EDEADLK)
		}
		delete(l.waiting, w.in.Unique)
		granted = append(granted, lockGrant{w, st, f.guard != nil})
		return true
	})
	l.watchOthers(o, f)
	return granted
}

// grant replies to requests that waited. The caller holds no lock.
func (o *overlay) grant(granted []lockGrant) {
	for _, g := range granted {
		if g.st.Ok() && !g.guarded {
			o.agreeLocked(g.w.h)
		}
		o.locking.mu.Lock()
		if !o.locking.closed {
			o.locking.answer(g.w.in.Unique, g.st)
		}
		o.locking.mu.Unlock()
		g.w.h.release()
	}
}

// watchOthers starts a file's timer if a request waits for a lock of a process that bypasses the
// mount.
func (l *locking) watchOthers(o *overlay, f *lockedFile) {
	if f.timer != nil || l.closed || !slices.ContainsFunc(f.waiters, func(w *lockWait) bool { return !f.blockedHere(w) }) {
		return
	}
	f.timer = time.AfterFunc(f.pause, func() {
		l.mu.Lock()
		f.timer = nil
		f.pause = min(2*f.pause, maxLockPause)
		granted := l.retry(o, f)
		l.tidy(f)
		l.mu.Unlock()
		o.grant(granted)
	})
}

// blockedHere reports whether w waits for a lock that a process on the mount holds.
func (f *lockedFile) blockedHere(w *lockWait) bool {
	if isFlock(&w.in) {
		for h := range f.flocks {
			if h != w.h {
				return true
			}
		}
		return false
	}
	return f.blocker(&w.in) != nil
}

func (f *lockedFile) blocker(in *fuse.LkIn) *lockOwner {
	w := f.owners[in.Owner]
	if w == nil {
		return nil
	}
	fl := ofdLock(&in.Lk)
	if unix.FcntlFlock(uintptr(w.fd), unix.F_OFD_GETLK, &fl) != nil || fl.Type == unix.F_UNLCK {
		return nil
	}
	return f.ownerOf(&fl)
}

// ownerOf finds the owner of the lock fl among the locks that /proc lists for the owners'
// descriptors.
func (f *lockedFile) ownerOf(fl *unix.Flock_t) *lockOwner {
	end := "EOF"
	if fl.Len > 0 {
		end = strconv.FormatInt(fl.Start+fl.Len-1, 10)
	}
	start := strconv.FormatInt(fl.Start, 10)
	for _, w := range f.owners {
		for _, has := range locksOf(w.fd) {
			if has[0] == "OFDLCK" && has[1] == start && has[2] == end {
				return w
			}
		}
	}
	return nil
}

// locksOf returns the locks of a descriptor: kind, first and last byte.
func locksOf(fd int) (locks [][3]string) {
	b, err := procfs.Read(os.Getpid(), "fdinfo/"+strconv.Itoa(fd))
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(b)) {
		// A line looks like this: "lock: 1: OFDLCK  ADVISORY  WRITE -1 fe:00:1234 0 EOF".
		if at := strings.Fields(line); len(at) == 9 && at[0] == "lock:" {
			locks = append(locks, [3]string{at[2], at[7], at[8]})
		}
	}
	return locks
}

// mayWait refuses a wait that could last forever: a deadlock of POSIX locks, or shared memory used
// by a process that bypasses the mount.
func (l *locking) mayWait(f *lockedFile, in *fuse.LkIn) fuse.Status {
	switch {
	case isFlock(in):
		return fuse.OK
	case f.guard == nil && sharesMemory(f.n, in):
		return fuse.Status(unix.ENOLCK)
	case l.deadlocks(f, in):
		return fuse.Status(unix.EDEADLK)
	}
	return fuse.OK
}

// deadlocks reports whether the owner of the conflicting lock waits, directly or through others,
// for the owner of this request. If two of the owners belong to one process, they hold OFD locks,
// which another thread of the process may release. So such a wait is not a deadlock.
func (l *locking) deadlocks(f *lockedFile, in *fuse.LkIn) bool {
	if isFlock(in) {
		return false
	}
	pids := map[uint32]bool{in.Lk.Pid: true}
	for w := f.blocker(in); w != nil; {
		if w.id == in.Owner {
			return true
		}
		if pids[w.pid] {
			return false
		}
		pids[w.pid] = true
		waits := l.waitOf(w.id)
		if waits == nil {
			return false
		}
		w = waits.f.blocker(&waits.in)
	}
	return false
}

// waitOf returns the request that an owner of POSIX locks waits for, or nil.
func (l *locking) waitOf(owner uint64) *lockWait {
	for _, w := range l.waiting {
		if w.in.Owner == owner && !isFlock(&w.in) {
			return w
		}
	}
	return nil
}

// lingers reports whether the conflicting lock may belong to a closed handle whose RELEASE has not
// arrived. close(2) does not wait for the RELEASE. Without this check, the second command of "flock
// -n f true; flock -n f true" failed.
func (o *overlay) lingers(in *fuse.LkIn) bool {
	h := o.handles.get(in.Fh)
	if h == nil {
		return false
	}
	l := &o.locking
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.files[h.node]
	if f == nil {
		return false
	}
	if isFlock(in) {
		return len(f.flocks) > 1 || len(f.flocks) == 1 && !f.flocks[h]
	}
	w := f.blocker(in)
	return w != nil && len(w.via) == 1
}

// interrupted ends the wait of a request, and reports whether there was one.
func (o *overlay) interrupted(unique uint64) bool {
	l := &o.locking
	l.mu.Lock()
	w := l.waiting[unique]
	if w == nil {
		l.mu.Unlock()
		return false
	}
	delete(l.waiting, unique)
	w.f.waiters = slices.DeleteFunc(w.f.waiters, func(other *lockWait) bool { return other == w })
	l.tidy(w.f)
	l.answer(unique, fuse.EINTR)
	l.mu.Unlock()
	w.h.release()
	return true
}

// agreeLocked makes the kernel's cache of a file agree with the source after a process has locked
// the file. Processes that bypass the mount write while they hold a lock, and a process that reads
// under a lock must see those writes. If no process can bypass the mount, the cache is dropped only
// if the file's times have changed. If some process can bypass it, comparing times is not enough,
// because a time is set before the bytes are written. Then the cache is always dropped.
//
// The cached names next to the file are dropped too. SQLite makes and removes files next to a
// database under locks, and decides by their presence whether to repair the database. Two processes
// that saw different -shm files lost each other's rows.
func (o *overlay) agreeLocked(h *handle) {
	n := h.node
	gen := n.peek()
	var sx sys.Stat
	if sys.StatFD(h.fd, &sx) != nil {
		return
	}
	changed, before := n.note(&sx, gen)
	sure := before.known && !changed && (!before.young || n.key.dev == o.root.node.key.dev && o.fineTimes())
	if sure && !o.bypassable.Load() {
		return
	}
	o.notifier.drop(n)
	if changed {
		o.tellOutside(n, before, &sx)
	}
	var buf [2]link
	for _, name := range n.links(buf[:]) {
		for _, with := range []string{"-journal", "-wal", "-shm"} {
			o.notifier.entry(name.parent.id, name.name+with)
		}
	}
}

// fineTimes reports whether any two changes of a file in the source get different ctimes. This
// requires Linux 6.13 and a file system that stores such times. Earlier kernels take ctimes from a
// clock that ticks every 1 to 10 ms.
func (o *overlay) fineTimes() bool {
	o.locking.fineTimesOnce.Do(func() {
		var system unix.Utsname
		var fs unix.Statfs_t
		if unix.Uname(&system) != nil || unix.Fstatfs(o.root.fd, &fs) != nil {
			return
		}
		var major, minor int
		_, err := fmt.Sscanf(unix.ByteSliceToString(system.Release[:]), "%d.%d", &major, &minor)
		switch fs.Type {
		case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC:
			o.locking.fineTimes = err == nil && (major > 6 || major == 6 && minor >= 13)
		}
	})
	return o.locking.fineTimes
}

// noteLocked records the state of a file that was written to, before a lock on it is released or
// replaced. agreeLocked compares with that state.
func (o *namespace) noteLocked(h *handle) {
	n := h.node
	n.mu.Lock()
	known, gen := n.kernelHas.known, n.kernelHas.gen
	n.mu.Unlock()
	var sx sys.Stat
	if !known && sys.StatFD(h.fd, &sx) == nil {
		n.note(&sx, gen)
	}
}

// has reports whether the owner of a request has locks on the file.
func (l *locking) has(h *handle, in *fuse.LkIn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.files[h.node]
	if f == nil {
		return false
	}
	return isFlock(in) && f.flocks[h] || !isFlock(in) && f.owners[in.Owner] != nil
}

// agreeAll drops the kernel's pages and attributes of the shared memory n and of its database
// files. The guard has been taken, so no process that bypasses the mount changes them any more.
// SQLite opens all these files before it asks for the lock. Without agreeAll, SQLite missed changes
// made between the open and the lock, and a read of the write-ahead log ended early ("disk I/O
// error").
//
// agreeAll also records the current state. Otherwise the next GETATTR would detect a change and
// notify the kernel, which would then ignore the reply to that GETATTR.
func (o *contents) agreeAll(n *inode) {
	o.agreeWith(n)
	var buf [2]link
	for _, name := range n.links(buf[:]) {
		d, err := o.dir(name.parent)
		if err != nil {
			continue
		}
		db := strings.TrimSuffix(name.name, "-shm")
		for _, name := range []string{db, db + "-wal"} {
			var sx sys.Stat
			if sys.StatAt(d.fd, name, &sx) != nil {
				continue
			}
			if file := o.table.find(keyOf(&sx)); file != nil {
				o.agreeWith(file)
			}
		}
		d.release()
	}
}

// agreeWith drops the kernel's pages and attributes of n, and records the attributes that n has in
// the source.
func (o *contents) agreeWith(n *inode) {
	gen := n.peek()
	var sx sys.Stat
	if o.statInode(n, &sx) == nil {
		if changed, before := n.note(&sx, gen); changed {
			o.tellOutside(n, before, &sx)
		}
	}
	o.notifier.drop(n)
}

// endLocks ends all waits after the connection has ended.
func (o *overlay) endLocks() {
	l := &o.locking
	l.mu.Lock()
	l.closed = true
	waits := slices.Collect(maps.Values(l.waiting))
	for _, f := range l.files {
		if f.timer != nil {
			f.timer.Stop()
		}
		for _, w := range f.owners {
			unix.Close(w.fd)
		}
		if f.guard != nil {
			unix.Close(f.guard.fd)
			unix.Close(f.arena)
		}
	}
	l.files, l.waiting = nil, nil
	l.mu.Unlock()
	for _, w := range waits {
		w.h.release()
	}
}

// lockDescriptors calls f for each owner's descriptor, to fill another FDStore.
func (o *overlay) lockDescriptors(f func(key uint64, fd int)) {
	o.locking.mu.Lock()
	defer o.locking.mu.Unlock()
	for _, file := range o.locking.files {
		for _, w := range file.owners {
			f(w.key, w.fd)
		}
		if file.guard != nil {
			f(file.guard.key, file.guard.fd)
		}
	}
}

// restoreLocks restores the locks of a killed server: those in the ledger, and the flock(2) locks
// on the descriptors in kept.
func (o *overlay) restoreLocks(slots []uint32, nodes map[uint64]*inode, kept map[uint64]*os.File) {
	l, led := &o.locking, o.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ref := range slots {
		s := (*lockSlot)(led.at(ref))
		n := nodes[s.node]
		if n == nil || kept[s.key] == nil {
			led.drop(ref)
			continue
		}
		f := l.file(n)
		w := f.owners[s.owner]
		if s.fh == 0 {
			w = f.guard
		}
		if w == nil {
			fd, err := unix.FcntlInt(kept[s.key].Fd(), unix.F_DUPFD_CLOEXEC, 0)
			if err != nil {
				led.drop(ref)
				continue
			}
			w = &lockOwner{id: s.owner, key: s.key, fd: fd, pid: s.pid, via: map[uint64]uint32{}}
			if s.fh == 0 {
				f.guard = w
			} else {
				f.owners[s.owner] = w
			}
		}
		w.via[s.fh] = ref
		n.locked.Store(true)
	}
	for _, f := range l.files {
		if f.guard == nil {
			continue
		}
		for _, w := range f.owners {
			f.arena, _ = sys.OpenAgain(w.fd, unix.O_RDWR)
			break
		}
		o.dropGuard(f)
	}
	for i := range o.handles.part {
		for _, h := range o.handles.part[i].m {
			if h.stored.Load() && slices.ContainsFunc(locksOf(h.fd), func(has [3]string) bool { return has[0] == "FLOCK" }) {
				h.node.locked.Store(true)
				l.file(h.node).flocks[h] = true
			}
		}
	}
}
