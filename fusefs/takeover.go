//go:build linux || darwin

package fusefs

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"cachebro/fusefs/sys"
	"cachebro/store/leaf/loop"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// # Taking over
//
// A connection outlives a killed server while some process holds its descriptor. Another server can
// then take over. It reads the ledger, rebuilds nodes and handles, replays the recorded INIT to the
// protocol decoder, and asks the kernel to resend unanswered requests (Linux 6.9). Programs on the
// mount only have to wait.
//
// Reference counts in the ledger are never too low, so no node that the kernel knows is dropped. If
// a reply was never sent, the count can be one too high, and then the node stays until the unmount.
// Dirty inodes are dirty again. The files of handles are opened again by name. If a file has no
// name, its descriptor is taken from the FDStore.

const notifyResend = 7

// NewLedger returns an empty file in memory for Options.Ledger.
func NewLedger() (*os.File, error) {
	if !sys.Points {
		return nil, errors.ErrUnsupported // without Points, another server could not open files without a name
	}
	fd, err := sys.Memory("cachebro-ledger")
	if err != nil {
		return nil, fmt.Errorf("make the ledger: %w", err)
	}
	return os.NewFile(uintptr(fd), "ledger"), nil
}

// CanTakeOver returns nil if another server can take over the connection and ledger of a killed
// server. Otherwise the error says why not.
func CanTakeOver(l, device *os.File) error {
	var head [8]byte
	if _, err := l.ReadAt(head[:], 0); err != nil || binary.NativeEndian.Uint64(head[:]) != ledgerMagic {
		return errors.Join(errLedger, err)
	}
	led, err := openLedger(l)
	if err != nil {
		return err
	}
	led.unmap()
	fds := []unix.PollFd{{Fd: int32(device.Fd())}}
	_, err = loop.RetryValue(func() (int, error) { return unix.Poll(fds, 0) })
	if err == nil && fds[0].Revents&(unix.POLLERR|unix.POLLHUP|unix.POLLNVAL) != 0 {
		err = errors.New("it was unmounted or aborted")
	}
	return err
}

// Device returns the descriptor of /dev/fuse.
func (s *Server) Device() int { return s.dev.fd }

// Replaceable reports whether another server could take over.
func (s *Server) Replaceable() bool {
	l := s.fs.ledger
	return l != nil && l.head.state.Load() == ledgerServing
}

// Abandon records that the server ends on purpose, so that no other server takes over.
func (s *Server) Abandon() { s.fs.ledger.setState(ledgerEnded) }

// useLedger initializes the ledger in the options, or opens it for a take-over.
func (o *contents) useLedger(opt *Options) error {
	if opt.Ledger == nil {
		return nil
	}
	var err error
	if opt.TakeOver {
		o.ledger, err = openLedger(opt.Ledger)
	} else {
		o.ledger, err = newLedger(opt.Ledger)
	}
	if err != nil {
		return err
	}
	h := o.ledger.head
	h.serving.Add(1)
	o.table.ledger, o.table.nextID = o.ledger, &h.nextID
	o.handles.next = &h.nextFH
	o.fdStore = opt.FDStore
	return nil
}

// replay handles the recorded INIT again. The reply must equal the reply that the kernel received
// from the first server.
func (d *device) replay(l *ledger) error {
	h := l.head
	d.init = append([]byte(nil), h.init[:h.initLen]...)
	out := make([]byte, 4096)
	n, st := d.proto.HandleRequest([][]byte{d.init}, [][]byte{out})
	if !st.Ok() {
		return unix.Errno(st)
	}
	if string(out[:n]) != string(h.reply[:h.replyLen]) {
		return errors.New("this version talks to the kernel differently than the previous one")
	}
	return nil
}

// resend asks the kernel to resend unanswered requests.
func (d *device) resend() error { return d.notify(notifyResend, nil) }

// restore rebuilds nodes and handles from the ledger. kept holds descriptors by the number of the
// handle. restore closes them.
func (o *overlay) restore(kept map[uint64]*os.File) {
	l := o.ledger
	names := map[uint64][]uint32{}
	var handles, locks []uint32
	nodes := map[uint64]*inode{rootID: o.root.node}
	l.slots(func(ref, kind uint32) {
		switch kind {
		case slotNode:
			s := (*nodeSlot)(l.at(ref))
			if s.id == rootID {
				if o.root.node.slot.Load() == 0 {
					o.root.node.slot.Store(ref)
					return
				}
			} else if nodes[s.id] == nil {
				nodes[s.id] = o.restoreNode(s, ref)
				return
			}
			l.drop(ref)
		case slotLink:
			s := (*linkSlot)(l.at(ref))
			names[s.node] = append(names[s.node], ref)
		case slotHandle:
			handles = append(handles, ref)
		case slotLock:
			locks = append(locks, ref)
		case slotDevice:
			s := (*deviceSlot)(l.at(ref))
			o.devices.restore(s.dev, s.number)
		default:
			l.drop(ref)
		}
	})
	for id, refs := range names {
		o.restoreNames(nodes[id], refs, nodes)
	}
	for _, n := range nodes {
		if n.id != rootID {
			o.dropLost(n)
		}
	}
	o.reopened = map[uint64]*handle{}
	lost, owed := 0, map[uint32][]ownerOwed{}
	for _, ref := range handles {
		s := (*handleSlot)(l.at(ref))
		n := nodes[s.node]
		if n == nil {
			l.drop(ref)
			continue
		}
		h := o.restoreHandle(n, s, ref, kept)
		if h.fd < 0 {
			lost++
		}
		if s.pid != 0 && s.start != 0 {
			owed[s.pid] = append(owed[s.pid], ownerOwed{h, s.start})
		}
	}
	o.restoreLocks(locks, nodes, kept)
	for _, f := range kept {
		f.Close()
	}
	for _, n := range nodes {
		o.restoreWrites(n)
	}
	o.ownersAgain(owed)
	if l.prune() {
		until := time.Now().Add(time.Second)
		o.moves.unsettledUntil.Store(&until)
	}
	o.log.Info("took over", "nodes", len(nodes), "handles", len(handles), "lost", lost, "dirty", o.dirty.len())
}

func (o *overlay) restoreNode(s *nodeSlot, ref uint32) *inode {
	k := key{s.dev, s.ino, s.birth}
	n := &inode{fs: o, id: s.id, key: k, kind: s.mode, nlookup: s.nlookup}
	n.slot.Store(ref)
	flags := s.flags.Load()
	n.gone = flags&nodeGone != 0
	n.removed.Store(flags&nodeDetached != 0)
	o.table.put(n, !n.removed.Load())
	return n
}

// restoreNames gives n the recorded names, newest first. It drops names in directories that the
// kernel has forgotten.
func (o *overlay) restoreNames(n *inode, refs []uint32, nodes map[uint64]*inode) {
	l := o.ledger
	slices.SortFunc(refs, func(a, b uint32) int {
		return cmp.Compare((*linkSlot)(l.at(b)).seq, (*linkSlot)(l.at(a)).seq)
	})
	for _, ref := range refs {
		s := (*linkSlot)(l.at(ref))
		var parent *inode
		if n != nil && n.id != rootID {
			parent = nodes[s.parent]
		}
		name := l.linkName(ref)
		switch {
		case parent == nil:
			l.drop(ref)
		case n.link.parent == nil:
			n.link = link{parent, name, ref}
		case n.isDir() || n.gone || n.hasLinkLocked(parent, name):
			l.drop(ref)
		default:
			if n.more == nil {
				n.more = new([]link)
			}
			*n.more = append(*n.more, link{parent, name, ref})
		}
	}
}

// dropLost drops the names of n that do not lead to the root because the kernel has forgotten a
// directory above them. If no name is left, n counts as gone until it is looked up again.
func (o *overlay) dropLost(n *inode) {
	all := []link{n.link}
	if n.more != nil {
		all = append(all, *n.more...)
	}
	var left []link
	for _, l := range all {
		top := l.parent
		for top != nil && top.link.parent != nil {
			top = top.link.parent
		}
		if top == o.root.node {
			left = append(left, l)
		} else {
			o.ledger.drop(l.slot)
		}
	}
	n.link, n.more = link{}, nil
	if len(left) == 0 {
		n.gone = true
		return
	}
	n.link = left[0]
	if more := left[1:]; len(more) > 0 {
		n.more = &more
		for _, l := range left {
			l.parent.holdsNames.Store(true)
		}
	}
}

// restoreHandle opens the file of a handle again. If that fails, the handle stays without a
// descriptor. Then the kernel's requests for the handle fail, and its number is not reused.
func (o *contents) restoreHandle(n *inode, s *handleSlot, ref uint32, kept map[uint64]*os.File) *handle {
	h := &handle{fh: s.fh, node: n, fd: -1, flags: s.flags, readable: s.reads, slot: ref}
	h.owner = Caller{PID: s.pid, TID: s.tid, UID: s.uid, GID: s.gid}
	if f := kept[s.fh]; f != nil {
		if fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0); err == nil {
			h.fd = fd
			h.stored.Store(true)
		}
	}
	if h.fd < 0 {
		flags := int(s.flags) & keepFlags
		var err error
		if s.reads && flags&unix.O_ACCMODE == unix.O_WRONLY {
			h.fd, err = o.openInode(n, flags&^unix.O_ACCMODE|unix.O_RDWR)
		}
		if h.fd < 0 {
			h.readable = flags&unix.O_ACCMODE == unix.O_RDWR
			h.fd, err = o.openFor(n, s.flags, nil)
		}
		if err != nil {
			h.fd = -1
			o.log.Warn("an open file cannot be opened again", "path", n.LastPath(), "err", err)
		}
	}
	h.refs.Store(1)
	o.handles.put(h)
	h.next, n.handles = n.handles, h
	if s.unique != 0 {
		o.reopened[s.unique] = h
	}
	return h
}

// ownerOwed is a handle whose owner must still be looked up, and the start time of that process.
type ownerOwed struct {
	h     *handle
	start uint64
}

// ownersWait limits how long programs on the mount wait for ownersAgain, which usually takes a
// millisecond.
const ownersWait = 200 * time.Millisecond

// ownersAgain looks up the processes that opened files, and sets those that still exist as owners.
// A process in an exec or a page fault may wait for our answer to a request, and cannot be examined
// before that. The owners of its handles are set later.
func (o *contents) ownersAgain(owed map[uint32][]ownerOwed) {
	seen := make(chan struct{}, len(owed))
	for pid, all := range owed {
		o.dirty.wg.Add(1)
		go func() {
			defer o.dirty.wg.Done()
			defer func() { seen <- struct{}{} }()
			p := o.procs.process(pid, trustWrite, 0)
			for _, w := range all {
				if p != nil && p.Start == w.start {
					w.h.ownedBy(p)
				}
			}
		}()
	}
	timeout := time.After(ownersWait)
	for range owed {
		select {
		case <-seen:
		case <-timeout:
			return
		}
	}
}

// ownedBy sets p as the process of h's owner. If the owner is also the writer, it sets p there too.
func (h *handle) ownedBy(p *Process) {
	n := h.node
	n.order.Lock()
	defer n.order.Unlock()
	h.owner.Proc = p
	if w := n.writes; w != nil && w.writer.PID == p.PID && w.writer.Proc == nil {
		w.writer.Proc = p
	}
}

func (o *contents) restoreWrites(n *inode) {
	ref := n.slot.Load()
	if ref == 0 {
		return
	}
	flags := (*nodeSlot)(o.ledger.at(ref)).flags.Load()
	if flags&(nodeDirty|nodeCreated) == 0 {
		return
	}
	w := &writes{dirty: flags&nodeDirty != 0, created: flags&nodeCreated != 0, last: time.Now(), tail: 0, size: math.MaxInt64}
	for h := n.handles; h != nil; h = h.next {
		if h.writable() && h.owner.PID != 0 {
			w.writer = h.owner
		}
	}
	var sx sys.Stat
	if o.statInode(n, &sx) == nil {
		w.size = sx.Size
	}
	n.writes = w
	if w.dirty {
		o.dirty.add(n)
	}
}

// openedBefore returns the handle that an earlier server made for the same request, or nil.
func (o *contents) openedBefore(in *fuse.InHeader) *handle {
	if in.Unique&resendBit == 0 || o.reopened == nil {
		return nil
	}
	if h := o.reopened[in.Unique&^resendBit]; h != nil && h.fd >= 0 && o.handles.get(h.fh) == h {
		return h
	}
	return nil
}

// guard gives the descriptors of n's handles to the FDStore. It is called when n cannot be opened
// by name any more, or soon will not be.
func (o *contents) guard(n *inode) {
	if o.fdStore == nil || o.ledger == nil {
		return
	}
	n.mu.Lock()
	var all []*handle
	for h := n.handles; h != nil; h = h.next {
		if h.fh != 0 && !h.stored.Load() && h.acquire() {
			all = append(all, h)
		}
	}
	n.mu.Unlock()
	for _, h := range all {
		if !h.stored.Swap(true) && !o.fdStore.Keep(h.fh, h.fd) {
			h.stored.Store(false)
		}
		if o.handles.get(h.fh) != h { // the handle was released in the meantime
			o.fdStore.Drop(h.fh)
		}
		h.release()
	}
}

// unguard removes a handle that ends from the ledger and the FDStore.
func (o *contents) unguard(h *handle) {
	if h.slot != 0 {
		o.ledger.drop(h.slot)
		h.slot = 0
	}
	if o.fdStore != nil && h.stored.Load() {
		o.fdStore.Drop(h.fh)
	}
}

// Guarded calls f for every handle whose descriptor is in the FDStore, so that another FDStore can
// be filled.
func (s *Server) Guarded(f func(fh uint64, fd int)) {
	for i := range s.fs.handles.part {
		part := &s.fs.handles.part[i]
		part.RLock()
		var all []*handle
		for _, h := range part.m {
			if h.stored.Load() && h.acquire() {
				all = append(all, h)
			}
		}
		part.RUnlock()
		for _, h := range all {
			f(h.fh, h.fd)
			h.release()
		}
	}
	s.fs.lockDescriptors(f)
}

// takeOver serves a connection whose server was killed.
func (s *Server) takeOver() (*Server, error) {
	err := s.dev.replay(s.fs.ledger) // changes nothing, so another version of cachebro may try after a failure
	if err == nil {
		s.fs.restore(s.opt.Kept)
		err = s.dev.resend()
		if err != nil {
			s.fs.ledger.setState(ledgerUnable)
		}
	}
	if err != nil {
		// The supervisor then detaches the mount.
		s.undo()
		return nil, fmt.Errorf("take over %s: %w", s.opt.Mountpoint, err)
	}
	s.serve()
	return s, nil
}
