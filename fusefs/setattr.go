//go:build linux || darwin

package fusefs

import (
	"cachebro/fusefs/sys"
	"cachebro/store/leaf/event"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

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
	nobody := setsNothing(in)
	if nobody || in.Valid&(owners|times|fuse.FATTR_SIZE) != 0 {
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
		o.guard(n) // from now on even its owner cannot open it
	}
	chmod := in.Valid&owners != 0
	if nobody { // set-id bits may be cleared
		var sx sys.Stat
		chmod = o.statInode(n, &sx) == nil && sx.Mode&unix.S_IFMT == unix.S_IFREG && sx.Mode&(unix.S_ISUID|unix.S_ISGID) != 0
	}
	if chmod {
		o.finding(n)
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
		o.doneOn(n, &in.InHeader, event.OpChmod, &sx)
	}
	return fuse.OK
}

const setAnything = fuse.FATTR_MODE | fuse.FATTR_UID | fuse.FATTR_GID | fuse.FATTR_ATIME | fuse.FATTR_MTIME

// setsNothing reports whether a request sets nothing. The kernel sends such a request for a chown(2)
// with neither owner nor group, which clears set-id bits. It also sends one before a write, an
// fallocate or a copy, which clear those bits themselves.
func setsNothing(in *fuse.SetAttrIn) bool {
	return emptyChowns && in.Valid&(setAnything|fuse.FATTR_SIZE) == 0
}

// setSize truncates n through the handle that the kernel names, or else through its own descriptor.
// The caller holds n.order.
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
	nobody := setsNothing(in)
	if in.Valid&(setAnything|setMoreOf) == 0 && !nobody {
		return nil
	}
	return o.withInode(n, func(f sys.Ref) error {
		if nobody {
			var sx sys.Stat
			if err := sys.StatRef(f, &sx); err != nil || in.InHeader.Uid != 0 && in.InHeader.Uid != sx.UID {
				return err
			}
		}
		// The owner comes first: chown clears the set-id bits that chmod may set.
		if nobody || in.Valid&(fuse.FATTR_UID|fuse.FATTR_GID) != 0 {
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
