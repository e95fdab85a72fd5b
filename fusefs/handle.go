//go:build linux || darwin

package fusefs

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cachebro/fusefs/sys"
	"cachebro/store/leaf/event"

	"golang.org/x/sys/unix"
)

// handle is an open file, made by OPEN or CREATE. refs counts the users of fd, including the
// kernel. The last user closes fd.
type handle struct {
	fh       uint64
	node     *inode
	fd       int
	flags    uint32 // the caller's flags for open(2)
	refs     atomic.Int32
	next     *handle     // in node.handles, guarded by node.mu
	owner    Caller      // the process that opened the file; set only for writing
	slot     uint32      // in the ledger
	stored   atomic.Bool // the FDStore holds a copy of fd
	readable bool        // our descriptor can be read although the caller opened the file for writing
}

func (h *handle) writable() bool { return h.flags&unix.O_ACCMODE != unix.O_RDONLY }

// onlyAppends reports whether every write goes to the end of the file; see openFor.
func (h *handle) onlyAppends() bool {
	if h.flags&unix.O_APPEND == 0 {
		return false
	}
	fl, err := unix.FcntlInt(uintptr(h.fd), unix.F_GETFL, 0)
	return err == nil && fl&unix.O_APPEND != 0
}

func (h *handle) acquire() bool {
	for {
		r := h.refs.Load()
		if r <= 0 {
			return false
		}
		if h.refs.CompareAndSwap(r, r+1) {
			return true
		}
	}
}

func (h *handle) release() {
	if h.refs.Add(-1) == 0 {
		unix.Close(h.fd)
	}
}

func (o *contents) addHandle(n *inode, fd int, flags uint32, owner Caller, reads bool, unique uint64) *handle {
	h := &handle{node: n, fd: fd, flags: flags, owner: owner, readable: reads}
	h.refs.Store(1)
	o.handles.add(h)
	o.ledger.handle(h, unique)
	n.mu.Lock()
	h.next = n.handles
	n.handles = h
	n.mu.Unlock()
	if o.fdStore != nil && n.nameless() {
		o.guard(n)
	}
	return h
}

// dropHandle removes h from the lists. The caller keeps its reference to h. dropHandle reports
// whether another handle can write.
func (n *inode) dropHandle(h *handle) (writers bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for p := &n.handles; *p != nil; {
		if *p == h {
			*p = h.next
			continue
		}
		writers = writers || (*p).writable()
		p = &(*p).next
	}
	return writers
}

// otherWriters reports whether any handle except h can write to n.
func (n *inode) otherWriters(h *handle) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for o := n.handles; o != nil; o = o.next {
		if o != h && o.writable() {
			return true
		}
	}
	return false
}

// maxKept limits the number of descriptors that the method keep holds open.
const maxKept = 1024

// keep opens a descriptor (sys.Place) of n, which is about to lose its last known name, and holds
// it until the kernel forgets n. A process may have looked up the name and not yet opened it.
// Without keep, one open in a hundred failed with ESTALE during an atomic save.
func (o *contents) keep(n *inode, dir int, name string) *handle {
	o.guard(n)
	if n.isDir() {
		// The directory stays accessible through its cached descriptor.
		if d, err := o.dir(n); err == nil {
			d.release()
		}
		return nil
	}
	if len(n.Paths(2)) != 1 || o.table.get(n.id) != n {
		return nil
	}
	if o.keptFDs.Add(1) > maxKept {
		o.keptFDs.Add(-1)
		return nil
	}
	fd, err := sys.Open(dir, name, sys.Place, 0)
	if err != nil {
		o.keptFDs.Add(-1)
		return nil
	}
	h := &handle{node: n, fd: fd, flags: sys.Place}
	h.refs.Store(1)
	n.mu.Lock()
	p := &n.handles
	for *p != nil {
		p = &(*p).next
	}
	*p = h // last in the list, because handles that a process opened are preferred
	n.mu.Unlock()
	return h
}

// releaseKept releases a handle that keep returned. h may be nil.
func (o *contents) releaseKept(h *handle) {
	if h != nil {
		h.node.dropHandle(h)
		h.release()
		o.keptFDs.Add(-1)
	}
}

func (o *contents) forgotten(n *inode) {
	n.mu.Lock()
	h := n.handles
	n.mu.Unlock()
	for h != nil && h.flags&sys.Place == 0 {
		h = h.next
	}
	o.releaseKept(h)
}

// anyHandle returns a handle of n with a reference for the caller, or nil. If both is set, our
// descriptor must be open for reading and writing.
func (n *inode) anyHandle(both bool) *handle {
	n.mu.Lock()
	defer n.mu.Unlock()
	for h := n.handles; h != nil; h = h.next {
		writesOnly := both && h.flags&unix.O_ACCMODE == unix.O_WRONLY && !h.readsToo()
		if writesOnly || both && h.flags&sys.Place != 0 {
			continue
		}
		if h.acquire() {
			return h
		}
	}
	return nil
}

// readsToo reports whether our descriptor can read although the caller opened the file only for
// writing. CREATE makes such descriptors.
func (h *handle) readsToo() bool {
	fl, err := unix.FcntlInt(uintptr(h.fd), unix.F_GETFL, 0)
	return err == nil && fl&unix.O_ACCMODE == unix.O_RDWR
}

const (
	idleAfter = 2 * time.Second // a file that was not written to for this long counts as closed
	idleEvery = 5 * time.Second // the minimum time between two such closes of one file
	idleTick  = 500 * time.Millisecond

	settleAfter = 500 * time.Millisecond // how long settle waits for the RELEASE after a close
	settleTick  = time.Millisecond
)

// dirtySet holds the inodes that were written and are not closed yet. Programs keep databases and
// logs open for a long time. So if an inode was not written to for a while, dirtySet reports it as
// closed. Its goroutine runs only while the set is not empty.
type dirtySet struct {
	fs *overlay

	mu      sync.Mutex // guards the fields below
	m       map[*inode]struct{}
	running bool
	stopped bool
	quit    chan struct{} // closed by stop
	wg      sync.WaitGroup
}

func (d *dirtySet) init(o *overlay) {
	d.fs = o
	d.m = make(map[*inode]struct{})
	d.quit = make(chan struct{})
}

func (d *dirtySet) add(n *inode) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.m[n] = struct{}{}
	if !d.running && !d.stopped {
		d.running = true
		d.wg.Add(1)
		go d.run()
	}
}

func (d *dirtySet) remove(n *inode) {
	d.mu.Lock()
	delete(d.m, n)
	d.mu.Unlock()
}

func (d *dirtySet) len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.m)
}

func (d *dirtySet) list() []*inode {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.m))
}

// each calls f for every dirty inode that has a name. It holds the inode's order during the call.
func (d *dirtySet) each(f func(File)) {
	for _, n := range d.list() {
		n.order.Lock()
		if w := n.writes; w != nil && w.dirty && !n.nameless() {
			f(n)
		}
		n.order.Unlock()
	}
}

// settle waits until files that were just created or truncated have been reported. They are
// reported at the RELEASE of their last handle, which may arrive after close(2) has returned.
func (d *dirtySet) settle(cancel <-chan struct{}) {
	for _, n := range d.list() {
		for began := time.Now(); time.Since(began) < settleAfter; {
			if n.order.TryLock() {
				w := n.writes
				waits := w != nil && w.dirty && w.empty && time.Since(w.last) < settleAfter
				n.order.Unlock()
				if !waits {
					break
				}
			}
			select {
			case <-cancel:
				return
			case <-d.quit:
				return
			case <-time.After(settleTick):
			}
		}
	}
}

func (d *dirtySet) run() {
	defer d.wg.Done()
	t := time.NewTicker(idleTick)
	defer t.Stop()
	for {
		select {
		case <-d.quit:
			return
		case <-t.C:
		}
		for _, n := range d.list() {
			// If the lock is taken, the file is in use and so not idle.
			if n.order.TryLock() {
				if w := n.writes; w != nil && w.dirty && time.Since(w.last) >= idleAfter && time.Since(w.idled) >= idleEvery {
					d.fs.closeContent(n, Caller{}, event.OpWrite, true)
				}
				n.order.Unlock()
			}
		}
		d.mu.Lock()
		if len(d.m) == 0 {
			d.running = false
			d.mu.Unlock()
			return
		}
		d.mu.Unlock()
	}
}

// stop ends the goroutine and reports the remaining dirty inodes as closed. Dirty inodes remain
// only if the connection was aborted.
func (d *dirtySet) stop() {
	d.mu.Lock()
	if d.stopped {
		d.mu.Unlock()
		return
	}
	d.stopped = true
	close(d.quit)
	d.mu.Unlock()
	d.wg.Wait()
	for _, n := range d.list() {
		n.order.Lock()
		d.fs.closeContent(n, Caller{}, event.OpWrite, false)
		n.order.Unlock()
	}
}
