//go:build linux || darwin

package fusefs

import (
	"sync"
	"time"

	"cachebro/store/leaf/event"
)

const (
	idleAfter = 2 * time.Second // a file that was not written to for this time counts as closed
	idleEvery = 5 * time.Second // the minimum time between two such closes of one file
	idleTick  = 500 * time.Millisecond

	settleAfter = 500 * time.Millisecond // how long settle waits for the RELEASE after a close
	settleTick  = time.Millisecond
)

// dirtySet holds the inodes that were written and are not closed yet. Databases and logs are never
// closed, so it reports inodes that were not written to for a while as closed. Its goroutine runs
// only while the set is not empty.
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
	all := make([]*inode, 0, len(d.m))
	for n := range d.m {
		all = append(all, n)
	}
	return all
}

// each calls f for every dirty inode with a name, holding its order.
func (d *dirtySet) each(f func(File)) {
	for _, n := range d.list() {
		n.order.Lock()
		if w := n.writes; w != nil && w.dirty && !n.nameless() {
			f(n)
		}
		n.order.Unlock()
	}
}

// settle waits until files that were just created or truncated have been reported. That happens at
// the RELEASE of their last handle, which may arrive after close(2) has returned.
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
			// If the lock is taken, the file is in use.
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

// stop ends the goroutine and reports the remaining dirty inodes as closed. There are some only if
// the connection was aborted.
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
