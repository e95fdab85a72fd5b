//go:build linux || darwin

package fusefs

import (
	"syscall"
	"time"

	"cachebro/fusefs/sys"
	"cachebro/store/leaf/event"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// How long the kernel may cache names, attributes and the absence of names.
const (
	ownTTL     = time.Hour              // while no process can change the source directly
	outsideTTL = 900 * time.Millisecond // while some process can; its changes must show within a second
)

// status converts an error to an errno for the kernel. All errors are converted here.
func status(err error) fuse.Status {
	switch e := err.(type) {
	case nil:
		return fuse.OK
	case syscall.Errno:
		return fuse.Status(e)
	}
	return fuse.ToStatus(err)
}

func (o *namespace) fillAttr(sx *sys.Stat, a *fuse.Attr) {
	*a = fuse.Attr{
		Ino: o.devices.inode(sx.Dev, sx.Ino), Size: uint64(sx.Size), Blocks: sx.Blocks,
		Atime: uint64(sx.Accessed.Sec), Atimensec: sx.Accessed.Nsec,
		Mtime: uint64(sx.Modified.Sec), Mtimensec: sx.Modified.Nsec,
		Ctime: uint64(sx.Changed.Sec), Ctimensec: sx.Changed.Nsec,
		Mode: sx.Mode, Nlink: sx.Nlink,
		Owner:   fuse.Owner{Uid: sx.UID, Gid: sx.GID},
		Rdev:    uint32(sx.Rdev),
		Blksize: sx.Blksize,
	}
	fillMore(sx, a)
}

func (o *namespace) fillStatx(sx *sys.Stat, a *fuse.Statx) {
	*a = fuse.Statx{
		Ino: o.devices.inode(sx.Dev, sx.Ino), Size: uint64(sx.Size), Blocks: sx.Blocks, Blksize: sx.Blksize,
		Atime: fuse.SxTime{Sec: uint64(sx.Accessed.Sec), Nsec: sx.Accessed.Nsec},
		Btime: fuse.SxTime{Sec: uint64(sx.Born.Sec), Nsec: sx.Born.Nsec},
		Ctime: fuse.SxTime{Sec: uint64(sx.Changed.Sec), Nsec: sx.Changed.Nsec},
		Mtime: fuse.SxTime{Sec: uint64(sx.Modified.Sec), Nsec: sx.Modified.Nsec},
		Mode:  uint16(sx.Mode), Nlink: sx.Nlink, Uid: sx.UID, Gid: sx.GID,
		Mask: sx.Has, Attributes: sx.Flags, AttributesMask: sx.KnownFlags,
		DevMajor: unix.Major(sx.Dev), DevMinor: unix.Minor(sx.Dev),
		RdevMajor: unix.Major(sx.Rdev), RdevMinor: unix.Minor(sx.Rdev),
	}
}

func (o *namespace) ttl() (sec uint64, nsec uint32) {
	if o.outside.Load() {
		return uint64(outsideTTL / time.Second), uint32(outsideTTL % time.Second)
	}
	return uint64(ownTTL / time.Second), 0
}

// fillEntry fills the reply to a lookup with a node id and with sx, the attributes of that node.
func (o *namespace) fillEntry(id uint64, sx *sys.Stat, out *fuse.EntryOut) {
	out.NodeId = id
	out.EntryValid, out.EntryValidNsec = o.ttl()
	out.AttrValid, out.AttrValidNsec = out.EntryValid, out.EntryValidNsec
	o.fillAttr(sx, &out.Attr)
}

func (o *namespace) fillAttrOut(sx *sys.Stat, out *fuse.AttrOut) {
	out.AttrValid, out.AttrValidNsec = o.ttl()
	o.fillAttr(sx, &out.Attr)
}

// severalAsked is the value of attrThread when several threads or an unknown thread have asked for
// attributes. No thread has this id.
const severalAsked = ^uint32(0)

// noteAttrRead records that attributes of n are about to be read for the thread tid, or for an
// unknown thread if tid is 0. It always writes atomically, even if the value stays the same, so
// that a later voidOlderReplies sees the record.
func (n *inode) noteAttrRead(tid uint32) {
	if tid == 0 || !n.attrThread.CompareAndSwap(tid, tid) && !n.attrThread.CompareAndSwap(0, tid) {
		n.attrThread.Store(severalAsked)
	}
}

// voidOlderReplies makes the kernel ignore the attributes of nodes in answers to earlier requests.
// It is called after an operation has added a name to a directory, removed one, or given a file
// another name, because the kernel cannot compute the resulting attributes. Without it, the answer
// to a concurrent request may contain the old attributes, and the kernel would cache them for an
// hour. The thread that made the change needs no notification, because it has no other request in
// progress.
func (o *namespace) voidOlderReplies(in *fuse.InHeader, nodes ...*inode) {
	for _, n := range nodes {
		if by := n.attrThread.Swap(0); by != 0 && (by == severalAsked || by != in.Pid) {
			o.notifier.attrs(n.id)
		}
	}
}

// peek returns the generation that note takes as its argument gen. Call it before reading
// attributes from the source.
func (n *inode) peek() uint32 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.kernelHas.gen
}

// note compares sx, the attributes just read from the source, with those on which the kernel's
// cache of n is based, and stores sx. gen is what peek returned before the read. changed reports
// whether a process wrote to the source directly. If so, the cached pages are wrong, and the next
// OPEN drops them. If one of our own operations changed n since peek, the comparison proves
// nothing. In that case the next OPEN drops the pages only while processes may use the source
// directly.
func (n *inode) note(sx *sys.Stat, gen uint32) (changed bool, before kernelState) {
	if !n.isReg() {
		return false, kernelState{}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	outside := n.fs.outside.Load()
	if n.kernelHas.gen != gen || n.kernelHas.busy > 0 {
		n.kernelHas.known = false
		if outside {
			n.spoil()
		}
		return false, kernelState{}
	}
	before = n.kernelHas
	now := before
	now.known = true
	now.size = sx.Size
	now.mtime, now.ctime = sx.Mtime, sx.Ctime
	// A change of the ctime alone comes from a chmod, or from a write after which the mtime was
	// restored. Both count as a change.
	changed = before.known && before != now
	if changed || outside && (before.young || !before.known) {
		n.spoil()
	}
	now.young = young(now.ctime)
	n.kernelHas = now
	return changed, before
}

// spoil marks the kernel's cache of n as possibly wrong.
func (n *inode) spoil() { n.spoilt.Add(1) }

// young reports whether another change made now may still get the same ctime. Linux before 6.13
// takes the ctime from a clock that ticks every 4 to 10 ms. Some file systems store only whole
// seconds.
func young(ctime int64) bool {
	tick := 20 * time.Millisecond
	if ctime%int64(time.Second) == 0 {
		tick = 2 * time.Second
	}
	return time.Now().UnixNano()-ctime < int64(tick)
}

// begin records that one of our operations is about to change n's times. end records that the
// operation has ended.
func (n *inode) begin() {
	n.mu.Lock()
	n.kernelHas.known = false
	n.kernelHas.busy++
	n.mu.Unlock()
}

func (n *inode) end() {
	n.mu.Lock()
	n.kernelHas.known = false
	n.kernelHas.busy--
	n.kernelHas.gen++
	n.mu.Unlock()
}

// observed handles attributes of n that any request except OPEN has read from the source. If they
// changed unexpectedly, it notifies the kernel and the Observer.
func (o *contents) observed(n *inode, sx *sys.Stat, gen uint32) {
	if changed, before := n.note(sx, gen); changed {
		o.notifier.inode(n)
		o.tellOutside(n, before, sx)
	}
}

// tellOutside reports to the Observer that n was changed directly in the source.
func (o *contents) tellOutside(n *inode, before kernelState, sx *sys.Stat) {
	o.changes.Everything()
	after := sx.Stat
	was := after
	was.Mtime, was.Ctime, was.Size = before.mtime, before.ctime, before.size
	o.outsideOf(n, was, after)
}

// outsideOf reports a change in the source to the Observer. If n is dirty, it reports nothing,
// because the close of n will. outsideOf holds n.order, so that no write begins before the Observer
// has saved the content. If n.order is taken, it reports in the background instead of waiting,
// because the caller may hold that lock or another inode's.
func (o *contents) outsideOf(n *inode, was, after event.Stat) {
	if o.obs == nil {
		return
	}
	tell := func() {
		defer n.order.Unlock()
		if w := n.writes; w == nil || !w.dirty {
			o.obs.Outside(n, was, after)
			n.setReported(stamp{after.Size, after.Mtime, after.Ctime})
		}
	}
	if n.order.TryLock() {
		tell()
		return
	}
	o.dirty.wg.Add(1)
	go func() {
		defer o.dirty.wg.Done()
		n.order.Lock()
		if st, err := n.Stat(); err == nil {
			after = st
		}
		tell()
	}()
}

// SetAttr handles chmod, chown, truncate and utimens. A new size without a handle comes from
// truncate(2). The file is then opened, changed and closed here.
func (o *contents) SetAttr(cancel <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	n, st := o.node(in.NodeId)
	if !st.Ok() {
		return st
	}
	const (
		owners = fuse.FATTR_MODE | fuse.FATTR_UID | fuse.FATTR_GID
		times  = fuse.FATTR_ATIME | fuse.FATTR_MTIME
	)
	setsNone := setsNothing(in)
	if setsNone || in.Valid&(owners|times|fuse.FATTR_SIZE) != 0 {
		n.order.Lock()
		defer n.order.Unlock()
	}
	if in.Valid&times != 0 {
		n.mark.Or(MarkTimes)
	}
	if in.Valid&fuse.FATTR_SIZE != 0 {
		if err := o.setSize(cancel, n, in); err != nil {
			return status(err)
		}
	}
	if in.Valid&fuse.FATTR_MODE != 0 && in.Mode&0o600 != 0o600 {
		o.guard(n) // the new mode denies access even to the owner
	}
	chmod := in.Valid&owners != 0
	if setsNone { // such a request changes the mode only if there are set-id bits to clear
		var sx sys.Stat
		chmod = o.statInode(n, &sx) == nil && sx.IsRegular() && sx.Mode&(unix.S_ISUID|unix.S_ISGID) != 0
	}
	var was event.Stat
	if chmod {
		was = o.reportNames(n)
	}
	n.begin()
	err := o.setRest(n, in)
	n.end()
	if err != nil {
		return status(err)
	}
	gen := n.peek()
	var sx sys.Stat
	if err := o.statInode(n, &sx); err != nil {
		return status(err)
	}
	n.note(&sx, gen)
	n.countNames(&sx)
	o.fillAttrOut(&sx, out)
	if chmod {
		o.attrsChanged(n, &in.InHeader, was, &sx)
	}
	return fuse.OK
}

const setAnything = fuse.FATTR_MODE | fuse.FATTR_UID | fuse.FATTR_GID | fuse.FATTR_ATIME | fuse.FATTR_MTIME

// setsNothing reports whether a request sets nothing. The kernel sends such a request for a
// chown(2) with neither owner nor group, which clears set-id bits. It also sends one before a
// write, an fallocate or a copy, which clear those bits themselves.
func setsNothing(in *fuse.SetAttrIn) bool {
	return emptyChowns && in.Valid&(setAnything|fuse.FATTR_SIZE) == 0
}

// setSize truncates n through the handle in the request, or else through a descriptor that it
// opens. The caller holds n.order.
func (o *contents) setSize(cancel <-chan struct{}, n *inode, in *fuse.SetAttrIn) error {
	var fd int
	if h := o.handles.get(in.Fh); in.Valid&fuse.FATTR_FH != 0 && h != nil && h.writable() {
		fd = h.fd
	} else {
		var err error
		fd, err = o.openWritable(n)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
	}
	var sx sys.Stat
	if err := sys.StatFD(fd, &sx); err != nil {
		return err
	}
	c := o.caller(&in.InHeader, true)
	n.begin()
	err := o.truncate(n, fd, c, &in.InHeader, int64(in.Size), stampOf(&sx), in.Valid&fuse.FATTR_KILL_SUIDGID != 0, cancel)
	n.end()
	if in.Valid&fuse.FATTR_FH == 0 {
		o.closeContent(n, c, event.OpTruncate, false)
		if !n.dropHandle(nil) {
			n.forgetWrites()
		}
	}
	return err
}

// openWritable opens n for writing. If that fails, for instance because the mode is read-only, it
// duplicates the descriptor of a handle that can write.
func (o *namespace) openWritable(n *inode) (int, error) {
	fd, err := o.openInode(n, unix.O_WRONLY)
	if err == nil {
		return fd, nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for h := n.handles; h != nil; h = h.next {
		if h.writable() {
			return unix.FcntlInt(uintptr(h.fd), unix.F_DUPFD_CLOEXEC, 0)
		}
	}
	return -1, err
}

// setRest sets everything except the size.
func (o *namespace) setRest(n *inode, in *fuse.SetAttrIn) error {
	setsNone := setsNothing(in)
	if in.Valid&(setAnything|setMoreOf) == 0 && !setsNone {
		return nil
	}
	return o.withInode(n, func(f sys.Ref) error {
		if setsNone {
			var sx sys.Stat
			if err := sys.StatRef(f, &sx); err != nil || in.InHeader.Uid != 0 && in.InHeader.Uid != sx.UID {
				return err
			}
		}
		// The owner comes first: chown clears the set-id bits that chmod may set.
		if setsNone || in.Valid&(fuse.FATTR_UID|fuse.FATTR_GID) != 0 {
			uid, gid := -1, -1
			if in.Valid&fuse.FATTR_UID != 0 {
				uid = int(in.Uid)
			}
			if in.Valid&fuse.FATTR_GID != 0 {
				gid = int(in.Gid)
			}
			err := o.likeCaller(n, f, &in.InHeader, false, func() error {
				return sys.Chown(f, uid, gid)
			})
			if err != nil {
				return err
			}
		}
		if in.Valid&fuse.FATTR_MODE != 0 {
			if err := sys.Chmod(f, in.Mode&0o7777); err != nil {
				return err
			}
		}
		if err := setMore(f, in); err != nil || in.Valid&(fuse.FATTR_ATIME|fuse.FATTR_MTIME) == 0 {
			return err
		}
		return sys.SetTimes(f,
			timeOf(in.Valid, fuse.FATTR_ATIME, fuse.FATTR_ATIME_NOW, in.Atime, in.Atimensec),
			timeOf(in.Valid, fuse.FATTR_MTIME, fuse.FATTR_MTIME_NOW, in.Mtime, in.Mtimensec))
	})
}

func timeOf(valid, set, now uint32, sec uint64, nsec uint32) sys.Time {
	switch {
	case valid&set == 0:
		return sys.Unchanged
	case valid&now != 0:
		return sys.Now
	}
	return sys.Time{Sec: int64(sec), Nsec: nsec}
}
