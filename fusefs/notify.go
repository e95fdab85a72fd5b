//go:build linux || darwin

package fusefs

import (
	"encoding/binary"
	"sync"
)

// FUSE notification codes.
const (
	notifyInvalInode = 2
	notifyInvalEntry = 3
	notifyIncEpoch   = 8
)

// notifier sends notifications from its own goroutine. A handler must not send them, because it
// could wait for pages that only its own reply unlocks.
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
// An OPEN does not wait for it and drops them itself.
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
		if i.fresh.Load() != i.spoilt.Load() { // no OPEN has dropped them meanwhile
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

// dropNow drops the cached pages and attributes of a node and returns when that is done. The caller
// must hold no lock. A node that the kernel does not know (ENOENT) or an ended connection is no
// error.
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

// name makes the kernel look up a name again, after the reply to the caller's request. Until then
// the kernel holds the directory's lock.
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
