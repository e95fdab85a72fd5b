//go:build linux || darwin

package fusefs

import (
	"slices"

	"cachebro/fusefs/sys"
	"cachebro/store/leaf/event"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// This file handles extended attributes. If the source does not support them, requests are answered
// with ENOSYS. Then the kernel stops asking. Without ENOSYS, it would ask for security.capability
// before the first write to each file.

// withXattrs calls f with a node's inode and a reference to its source file.
func (o *namespace) withXattrs(id uint64, f func(n *inode, at sys.Ref) error) fuse.Status {
	if o.noXattr {
		return fuse.ENOSYS
	}
	n, st := o.node(id)
	if !st.Ok() {
		return st
	}
	err := o.withInode(n, func(at sys.Ref) error { return f(n, at) })
	return status(err)
}

// label is the attribute of SELinux. If SELinux is in use, the kernel itself answers requests for
// this attribute.
const label = "security.selinux"

// absentable lists the attributes whose absence is cached here. The kernel asks for them before
// writes and for ls -l, and caches no answer.
var absentable = [...]string{sys.DefaultACL, sys.AccessACL, "security.capability", label}

// absentBit returns an attribute's bit in inode.absent, or 0 if its absence is not cached.
func absentBit(attr string) uint32 {
	i := slices.Index(absentable[:], attr)
	if i < 0 {
		return 0
	}
	return 1 << i
}

// lacks reports whether n is known not to have an attribute.
func (n *inode) lacks(attr string) bool {
	return n.absent.Load()&absentBit(attr) != 0 && !n.fs.outside.Load()
}

// noteAbsent records that n lacks an attribute. gen is what peek returned before the attribute was
// read.
func (n *inode) noteAbsent(attr string, gen uint32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.kernelHas.gen == gen && n.kernelHas.busy == 0 && !n.fs.outside.Load() { // no attribute was set in between
		n.absent.Or(absentBit(attr))
	}
}

// forgetAbsent forgets which attributes n lacks. Call it before n may get an attribute, or after it
// may have got one.
func (n *inode) forgetAbsent() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.absent.Store(0)
}

// GetXAttr reads one attribute. If dest is empty it returns only the size.
func (o *contents) GetXAttr(cancel <-chan struct{}, in *fuse.InHeader, attr string, dest []byte) (uint32, fuse.Status) {
	if in.NodeId == rootID && attr == event.Settled {
		o.dirty.settle(cancel)
		return 0, fuse.ENOATTR
	}
	if in.NodeId == rootID && attr == event.Prepared {
		return 0, fuse.OK // clients see by this reply that SetXAttr accepts event.Prepared
	}
	if o.noXattr {
		return 0, fuse.ENOSYS
	}
	n, st := o.node(in.NodeId)
	if !st.Ok() {
		return 0, st
	}
	if n.lacks(attr) {
		return 0, o.absence(attr)
	}
	gen := n.peek()
	size, err := o.getXattr(n, in, attr, dest)
	switch {
	case status(err) == fuse.ENOATTR:
		n.noteAbsent(attr, gen)
		return 0, o.absence(attr)
	case err == nil && attr == label:
		o.labels.Store(true)
	}
	return uint32(size), status(err)
}

// absence returns the answer for an attribute that a file lacks. While no label is known, labels
// are reported as unsupported. Otherwise ls -l would ask for the label of every file, and the
// kernel would send us each request.
func (o *namespace) absence(attr string) fuse.Status {
	if attr == label && !o.labels.Load() {
		return fuse.Status(unix.EOPNOTSUPP)
	}
	return fuse.ENOATTR
}

func (o *namespace) getXattr(n *inode, in *fuse.InHeader, attr string, dest []byte) (size int, err error) {
	// Read through a handle if the file is open. Usually it is open, because the kernel asks for
	// security.capability before the first write.
	if h := n.anyHandle(false); h != nil {
		defer h.release()
		return atPosition(in, dest, func(dest []byte) (int, error) {
			if h.flags&sys.Place == 0 {
				return sys.GetXattrOpen(h.fd, attr, dest)
			}
			return sys.GetXattr(sys.FD(h.fd), attr, dest)
		})
	}
	err = o.withInode(n, func(at sys.Ref) (err error) {
		size, err = atPosition(in, dest, func(dest []byte) (int, error) { return sys.GetXattr(at, attr, dest) })
		return err
	})
	return size, err
}

// ListXAttr lists the names of extended attributes, each ended by a NUL.
func (o *namespace) ListXAttr(_ <-chan struct{}, in *fuse.InHeader, dest []byte) (uint32, fuse.Status) {
	var size int
	st := o.withXattrs(in.NodeId, func(_ *inode, at sys.Ref) (err error) {
		size, err = sys.ListXattr(at, dest)
		return err
	})
	return uint32(size), st
}

// SetXAttr sets one attribute.
func (o *overlay) SetXAttr(_ <-chan struct{}, in *fuse.SetXAttrIn, attr string, data []byte) fuse.Status {
	if attr == event.Prepared {
		return o.prepared.put(&in.InHeader, data)
	}
	if attr == label {
		o.labels.Store(true)
	}
	return o.changeXattr(&in.InHeader, func(n *inode, at sys.Ref) error {
		set := func() error { return setXattr(in, at, attr, data) }
		if attr == sys.AccessACL {
			return o.likeCaller(n, at, &in.InHeader, false, set)
		}
		return set()
	})
}

// RemoveXAttr removes one attribute.
func (o *overlay) RemoveXAttr(_ <-chan struct{}, in *fuse.InHeader, attr string) fuse.Status {
	return o.changeXattr(in, func(_ *inode, at sys.Ref) error {
		return sys.RemoveXattr(at, attr)
	})
}

func (o *overlay) changeXattr(in *fuse.InHeader, f func(n *inode, at sys.Ref) error) fuse.Status {
	n, st := o.node(in.NodeId)
	if !st.Ok() {
		return st
	}
	n.order.Lock()
	defer n.order.Unlock()
	t := o.try(in, nil, nil)
	if t.wasReported() {
		return fuse.OK // a killed server has already removed it
	}
	was := o.reportNames(n)
	n.begin()
	n.forgetAbsent()
	st = o.withXattrs(in.NodeId, f)
	n.end()
	if !st.Ok() {
		return st
	}
	o.voidOlderReplies(in, n)
	gen := n.peek()
	var sx sys.Stat
	if err := o.statInode(n, &sx); err == nil {
		n.note(&sx, gen)
		o.attrsChanged(n, in, was, &sx)
	}
	t.markDone()
	return fuse.OK
}
