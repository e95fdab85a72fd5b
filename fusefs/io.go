//go:build linux || darwin

package fusefs

import (
	"math"

	"cachebro/fusefs/sys"
	"cachebro/store/leaf/event"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

func (o *contents) Read(_ <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	h := o.handles.get(in.Fh)
	if h == nil {
		return nil, fuse.EBADF
	}
	return fuse.ReadResultFd(uintptr(h.fd), int64(in.Offset), min(len(buf), int(in.Size))), fuse.OK
}

// Writev is not used: requests arrive in one piece.
func (o *contents) Writev(<-chan struct{}, *fuse.WriteIn, [][]byte) (uint32, fuse.Status) {
	return 0, fuse.ENOSYS
}

// Write waits before the first write to a clean inode until the Observer has saved the old content.
func (o *contents) Write(cancel <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	h := o.handles.get(in.Fh)
	if h == nil {
		return 0, fuse.EBADF
	}
	if in.WriteFlags&fuse.WRITE_CACHE != 0 && h.onlyAppends() {
		o.notifier.inode(h.node)
		return 0, fuse.EPERM // pages of a mapping are written at their own offsets, not appended
	}
	n := h.node
	n.order.Lock()
	defer n.order.Unlock()
	off := int64(in.Offset)
	// An append goes to the end of the source file, which a process that bypasses the mount may
	// have made longer. This does not apply to pages of a mapping, which have their own offsets, or
	// to a resent request, whose bytes may already be in the file.
	appends := in.Flags&unix.O_APPEND != 0 && in.WriteFlags&fuse.WRITE_CACHE == 0 && in.Unique&resendBit == 0
	w, err := o.markHandleDirty(h, &in.InHeader, appends, cancel)
	if err != nil {
		return 0, status(err)
	}
	n.begin()
	done := 0
	write := func() error {
		for done < len(data) {
			var m int
			var err error
			if appends {
				m, err = sys.Append(h.fd, data[done:])
			} else {
				m, err = unix.Pwrite(h.fd, data[done:], off+int64(done))
			}
			if err == unix.EINTR {
				continue
			}
			if err != nil || m == 0 {
				return err
			}
			done += m
		}
		return nil
	}
	if in.WriteFlags&fuse.WRITE_KILL_SUIDGID != 0 {
		err = o.likeCaller(n, sys.FD(h.fd), &in.InHeader, true, func() error { return o.forCaller(&in.InHeader, false, write) })
	} else {
		err = write()
	}
	n.end()
	if appends && done > 0 {
		if end, err := unix.Seek(h.fd, 0, unix.SEEK_END); err == nil && end != off+int64(done) {
			// The kernel cached the bytes at another offset. It locks one of these pages until we
			// reply, so the notification must be asynchronous.
			w.touched(min(off, end-int64(done)), end)
			o.notifier.inode(n)
		}
	}
	w.touched(off, off+int64(done))
	w.setStamp(h.fd)
	if done == 0 && err != nil {
		return 0, status(err)
	}
	return uint32(done), fuse.OK
}

// markHandleDirty is like markDirty, for a change through a handle. The caller holds the order of
// h.node.
func (o *contents) markHandleDirty(h *handle, in *fuse.InHeader, appends bool, cancel <-chan struct{}) (*writes, error) {
	n := h.node
	w := n.writes
	var c Caller
	switch {
	case in.Pid == 0: // the kernel writes back its cache, so the opener counts as the writer
		c = h.owner
	case w != nil && w.dirty && w.writer.TID == in.Pid:
		c = w.writer
	default:
		c = o.caller(in, true)
	}
	var before stamp
	if w == nil || !w.dirty {
		var sx sys.Stat
		if err := sys.StatFD(h.fd, &sx); err != nil {
			return nil, err
		}
		before = stampOf(&sx)
	}
	first := w == nil || w.empty || w.tail == math.MaxInt64
	known := n.reported != nil && (w == nil || !w.dirty) // if so, markDirty itself compares the attributes
	w = o.markDirty(n, c, event.OpWrite, before, appends, cancel)
	if !known {
		w.check(h.fd)
	}
	if first && in.Pid != 0 {
		o.procs.peek(c.Proc)
	}
	return w, nil
}

// Lseek finds data and holes.
func (o *contents) Lseek(_ <-chan struct{}, in *fuse.LseekIn, out *fuse.LseekOut) fuse.Status {
	h := o.handles.get(in.Fh)
	if h == nil {
		return fuse.EBADF
	}
	off, err := unix.Seek(h.fd, int64(in.Offset), int(in.Whence))
	out.Offset = uint64(off)
	return status(err)
}

// Fallocate reserves, zeroes or frees a range.
func (o *contents) Fallocate(cancel <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	h := o.handles.get(in.Fh)
	if h == nil {
		return fuse.EBADF
	}
	n := h.node
	n.order.Lock()
	defer n.order.Unlock()
	off, end := int64(in.Offset), int64(in.Offset+in.Length)
	w, err := o.markHandleDirty(h, &in.InHeader, false, cancel)
	if err != nil {
		return status(err)
	}
	n.begin()
	err = o.likeCaller(n, sys.FD(h.fd), &in.InHeader, false, func() error {
		return o.forCaller(&in.InHeader, true, func() error { return sys.Allocate(h.fd, in.Mode, off, int64(in.Length)) })
	})
	n.end()
	if in.Mode&sys.KeepSize != 0 {
		end = w.size
	}
	if err == nil {
		w.touched(off, end)
	} else {
		w.tail = min(w.tail, off) // the operation may have changed part of the range
	}
	w.setStamp(h.fd)
	return status(err)
}

// CopyFileRange copies between files of the source directory. The data does not pass through the
// mount.
func (o *contents) CopyFileRange(cancel <-chan struct{}, in *fuse.CopyFileRangeIn) (uint32, fuse.Status) {
	from, to := o.handles.get(in.FhIn), o.handles.get(in.FhOut)
	if from == nil || to == nil {
		return 0, fuse.EBADF
	}
	n := to.node
	n.order.Lock()
	defer n.order.Unlock()
	w, err := o.markHandleDirty(to, &in.InHeader, false, cancel)
	if err != nil {
		return 0, status(err)
	}
	offIn, offOut := int64(in.OffIn), int64(in.OffOut)
	n.begin()
	done := 0
	err = o.likeCaller(n, sys.FD(to.fd), &in.InHeader, false, func() error {
		return o.forCaller(&in.InHeader, true, func() (err error) {
			// The count in the reply has only 32 bits.
			done, err = sys.CopyRange(from.fd, offIn, to.fd, offOut, int(min(in.Len, 1<<30)), int(in.Flags))
			return err
		})
	})
	n.end()
	if err != nil {
		return 0, status(err)
	}
	w.touched(offOut, offOut+int64(done))
	w.setStamp(to.fd)
	return uint32(done), fuse.OK
}
