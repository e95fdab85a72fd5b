//go:build linux || darwin

package fusefs

import (
	"encoding/binary"
	"sync"
	"time"

	"cachebro/store/leaf/loop"

	"golang.org/x/sys/unix"
)

// FUSE notification codes.
const (
	notifyInvalInode = 2
	notifyInvalEntry = 3
	notifyIncEpoch   = 8
)

// notifier sends notifications from its own goroutine. A request handler must not send them,
// because it could wait for pages that are locked until the handler replies.
type notifier struct {
	send func(code int32, body []byte) error

	mu      sync.Mutex // guards queue, names, closed
	wake    sync.Cond
	queue   []*inode
	names   []func()
	closed  bool
	stopped chan struct{} // closed by run
}

func newNotifier(send func(int32, []byte) error) *notifier {
	n := &notifier{send: send, stopped: make(chan struct{})}
	n.wake.L = &n.mu
	go n.run()
	return n
}

// inode queues a notification that makes the kernel drop all cached pages and attributes of a node.
// An OPEN does not wait for this notification, but drops the pages itself.
func (n *notifier) inode(i *inode) {
	i.spoil()
	if i.queued.Swap(true) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.closed {
		n.queue = append(n.queue, i)
		n.wake.Signal()
	}
}

func (n *notifier) run() {
	defer close(n.stopped)
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		for len(n.queue)+len(n.names) == 0 && !n.closed {
			n.wake.Wait()
		}
		if n.closed {
			return
		}
		if len(n.names) > 0 {
			next := n.names[0]
			n.names = n.names[1:]
			n.mu.Unlock()
			next()
			n.mu.Lock()
			continue
		}
		i := n.queue[0]
		n.queue = n.queue[1:]
		n.mu.Unlock()
		i.queued.Store(false)
		if i.fresh.Load() != i.spoilt.Load() { // no OPEN has dropped the pages in the meantime
			n.drop(i)
		}
		n.mu.Lock()
	}
}

func (n *notifier) drop(i *inode) {
	spoilt := i.spoilt.Load()
	n.dropNow(i.id)
	i.fresh.Store(spoilt)
}

// dropNow drops the cached pages and attributes of a node and returns when the kernel has done so.
// The caller must hold no lock. It is no error if the kernel does not know the node (ENOENT) or the
// connection has ended.
func (n *notifier) dropNow(id uint64) {
	var body [24]byte // struct fuse_notify_inval_inode_out: ino, off, len
	binary.NativeEndian.PutUint64(body[:], id)
	_ = n.send(notifyInvalInode, body[:])
}

// attrs makes the kernel drop the cached attributes of a node but not its pages.
func (n *notifier) attrs(id uint64) {
	var body [24]byte
	binary.NativeEndian.PutUint64(body[:], id)
	binary.NativeEndian.PutUint64(body[8:], ^uint64(0)) // negative offset: attributes only
	_ = n.send(notifyInvalInode, body[:])
}

// entry makes the kernel look up a name again.
func (n *notifier) entry(parent uint64, name string) {
	body := make([]byte, 16, 16+len(name)+1) // struct fuse_notify_inval_entry_out: parent, length, flags
	binary.NativeEndian.PutUint64(body, parent)
	binary.NativeEndian.PutUint32(body[8:], uint32(len(name)))
	_ = n.send(notifyInvalEntry, append(append(body, name...), 0))
}

// name makes the kernel look up a name again. The notification is sent by another goroutine,
// because the kernel holds the directory's lock until the reply to the request.
func (n *notifier) name(parent uint64, name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.closed {
		n.names = append(n.names, func() { n.entry(parent, name) })
		n.wake.Signal()
	}
}

func (n *notifier) stop() {
	n.mu.Lock()
	n.closed = true
	n.wake.Signal()
	n.mu.Unlock()
	<-n.stopped
}

const (
	// After requests had to queue, several threads wait for requests during the next crowdLasts
	// requests.
	crowdLasts = 128
	// watchEvery is how often watch checks that a thread waits for requests. After stillAfter
	// checks without a request, watch pauses.
	watchEvery = time.Millisecond
	stillAfter = 40

	// forgetTurn is how many requests the kernel delivers before a waiting FORGET (8 in
	// fuse_dev_do_read). A waiting FORGET makes queued return true, although no program waits for a
	// reply to it.
	forgetTurn = 8

	// unawaited are requests whose reply no program waits for. The program that caused such a
	// request may already send the next one.
	unawaited = 1<<opForget | 1<<opBatchForget | 1<<opRelease | 1<<opReleaseDir | 1<<opInterrupt
	// lengthy are the requests that wait for the disk.
	lengthy = 1<<opFsync | 1<<opFsyncDir
)

// watch makes sure that a thread waits for requests even while others are busy in slow handlers. It
// pauses while no requests arrive.
func (d *device) watch() {
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	for quiet, last := 0, uint64(0); ; {
		select {
		case <-d.ended:
			return
		case <-t.C:
		}
		taken := d.taken.Load()
		switch {
		case taken != last:
			quiet = 0
		case d.ready.Load() == 0:
			d.spawn()
		default:
			quiet++
		}
		last = taken
		if quiet < stillAfter {
			continue
		}
		t.Stop()
		d.idle.Store(true)
		if d.ready.Load() > 0 { // otherwise no thread would read a request and wake watch again
			select {
			case <-d.ended:
				return
			case <-d.woken:
			}
		}
		d.idle.Store(false)
		quiet = 0
		t.Reset(watchEvery)
	}
}

// requestTaken wakes watch or another thread if that is needed. A thread calls it after it has read
// a request. task is the sending thread's id, or 0 for the kernel itself and other PID namespaces.
// ready is how many threads still wait for a request.
func (d *device) requestTaken(op, task uint32, ready int32) {
	if ready == 0 && d.idle.Load() && d.idle.CompareAndSwap(true, false) {
		loop.Wake(d.woken)
	}
	taken := d.taken.Load()
	if op == opForget || op == opBatchForget {
		d.forgetAt.Store(taken)
	}
	if op >= maxOpcode || unawaited&(1<<op) != 0 {
		return
	}
	// A task waits for the reply before it sends another request. So while only one task sends
	// requests, they do not queue. Reads are an exception, because the kernel reads ahead.
	alone := task != 0 && op != opRead && d.lastTask.Swap(task) == task
	switch {
	case ready == 0 && !alone && taken-d.forgetAt.Load() > forgetTurn && d.queued():
		d.crowd.Store(taken)
		d.spawn()
	case ready == 0 && lengthy&(1<<op) != 0:
		d.spawn()
	}
}

// queued reports whether there are unread requests.
func (d *device) queued() bool {
	p := []unix.PollFd{{Fd: int32(d.fd), Events: unix.POLLIN}}
	n, err := unix.Poll(p, 0)
	return err == nil && n > 0
}

// enough reports whether n waiting threads are more than needed.
func (d *device) enough(n int32) bool {
	return n > maxReady || n > 1 && d.taken.Load()-d.crowd.Load() > crowdLasts
}
