//go:build linux || darwin

package fusefs

import (
	"cachebro/fusefs/sys"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/loop"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// keepFlags are the flags of open(2) that our own descriptor gets. All other flags are dropped:
//
// - O_CREAT: creation is already decided.
// - O_APPEND: each write has an offset, and pages of a mapping would be appended too.
// - O_DIRECT: this flag needs aligned buffers.
// - FMODE_EXEC, which execve(2) sends: openat2(2) refuses this flag.
const keepFlags = unix.O_ACCMODE | unix.O_SYNC | unix.O_DSYNC | unix.O_NOFOLLOW | unix.O_DIRECTORY | sys.OpenFlags

// Open opens a file. If the source differs from the kernel's cache, Open drops the cache before it
// replies. Otherwise the first read would return new bytes cut at the old length.
func (o *contents) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	n, st := o.node(in.NodeId)
	if !st.Ok() {
		return st
	}
	if h := o.openedBefore(&in.InHeader); h != nil {
		out.Fh, out.OpenFlags = h.fh, openFlags(n, h.flags)
		return fuse.OK
	}
	write := in.Flags&unix.O_ACCMODE != unix.O_RDONLY
	trunc := in.Flags&unix.O_TRUNC != 0
	var c Caller
	if o.obs != nil || write {
		c = o.caller(&in.InHeader, write || trunc)
	}
	if trunc {
		return o.openTrunc(cancel, n, c, in, out)
	}
	gen := n.peek()
	var sx sys.Stat
	fd, err := o.openFor(n, in.Flags, &sx)
	if err != nil {
		return status(err)
	}
	if write && o.sentBack.sendBack(&sx, in.Pid) {
		unix.Close(fd)
		return fuse.Status(unix.ESTALE)
	}
	unsure := o.agree(n, &sx, gen)
	o.opened(n, fd, in.Flags, c, false, in.Unique, out)
	if unsure && n.uncached() {
		out.OpenFlags |= fuse.FOPEN_DIRECT_IO
	}
	if !write && o.obs != nil {
		o.obs.Opened(n, c)
	}
	return fuse.OK
}

// agree drops the kernel's pages of a file that has changed on the source. gen is what peek
// returned before sx was read. unsure is true if agree has dropped pages. Meanwhile, the kernel
// ignores attributes that arrive, and may then use an outdated size at the file's next change.
func (o *contents) agree(n *inode, sx *sys.Stat, gen uint32) (unsure bool) {
	changed, before := n.note(sx, gen)
	if n.fresh.Load() != n.spoilt.Load() {
		unsure = true
		o.notifier.drop(n)
	}
	if changed {
		o.tellOutside(n, before, sx)
	}
	return unsure
}

// openFlags returns the flags of the reply. A process that closes any descriptor of a file, even a
// read-only one, loses its POSIX locks on the file. So for a file with locks the kernel must send a
// FLUSH at every close.
func openFlags(n *inode, flags uint32) (reply uint32) {
	reply = fuse.FOPEN_KEEP_CACHE
	if flags&unix.O_ACCMODE == unix.O_RDONLY && !n.locked.Load() {
		reply |= fuse.FOPEN_NOFLUSH
	}
	if (flags&unix.O_ACCMODE == unix.O_RDWR || n.locked.Load()) && n.uncached() {
		reply |= fuse.FOPEN_DIRECT_IO
	}
	return reply
}

// opened registers fd as a handle of n and fills in the reply. The kernel need not send FLUSH for a
// handle without write access. If reads is set, fd can be read even if flags do not allow it.
func (o *contents) opened(n *inode, fd int, flags uint32, c Caller, reads bool, unique uint64, out *fuse.OpenOut) {
	out.OpenFlags = openFlags(n, flags)
	if flags&unix.O_ACCMODE == unix.O_RDONLY {
		c = Caller{}
	}
	out.Fh = o.addHandle(n, fd, flags, c, reads || flags&unix.O_ACCMODE == unix.O_RDWR, unique).fh
}

func (o *contents) openTrunc(cancel <-chan struct{}, n *inode, c Caller, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	n.order.Lock()
	defer n.order.Unlock()
	spoilt := n.spoilt.Load()
	var sx sys.Stat
	flags := int(in.Flags) & keepFlags
	reads := flags&unix.O_ACCMODE == unix.O_RDONLY // Linux truncates even a file that is opened read-only
	if reads {
		flags |= unix.O_RDWR
	}
	fd, _, err := o.openStat(n, flags, &sx)
	if err != nil {
		return status(err)
	}
	if o.sentBack.sendBack(&sx, in.Pid) {
		unix.Close(fd)
		return fuse.Status(unix.ESTALE)
	}
	n.begin()
	defer n.end()
	if err := o.truncate(n, fd, c, &in.InHeader, 0, stampOf(&sx), in.Mode&fuse.OPEN_KILL_SUIDGID != 0, cancel); err != nil {
		unix.Close(fd)
		return status(err)
	}
	// The kernel itself drops the pages of a truncated file.
	n.fresh.Store(spoilt)
	o.opened(n, fd, in.Flags, c, false, in.Unique, out)
	if reads {
		o.closeContent(n, c, event.OpTruncate, false) // no FLUSH comes for a read-only handle
	}
	return fuse.OK
}

// truncate sets the size of n through its descriptor fd. old is the file's stamp before the change.
// The caller holds n.order and has called n.begin.
func (o *contents) truncate(n *inode, fd int, c Caller, in *fuse.InHeader, size int64, old stamp, killPriv bool, cancel <-chan struct{}) error {
	if w := n.writes; w != nil && w.dirty && size < w.size && w.writer.PID != c.PID {
		// Another process truncates the file before the writer has closed it.
		o.closeContent(n, c, event.OpWrite, false)
	}
	w := o.markDirty(n, c, event.OpTruncate, old, false, cancel)
	w.check(fd)
	cut := func() error { return loop.Retry(func() error { return unix.Ftruncate(fd, size) }) }
	var err error
	if killPriv {
		err = o.likeCaller(n, sys.FD(fd), in, true, cut)
	} else {
		err = cut()
	}
	if err == nil {
		w.truncated(size)
	}
	w.setStamp(fd)
	return err
}

// Flush handles FLUSH, which the kernel sends when a process closes a descriptor that can write. A
// file that was only made or emptied stays dirty until its RELEASE. The reason is how a shell
// redirects output: it opens the file, duplicates the descriptor, and closes the first one before
// the command writes a byte.
func (o *overlay) Flush(_ <-chan struct{}, in *fuse.FlushIn) fuse.Status {
	h := o.handles.get(in.Fh)
	if h == nil {
		return fuse.OK
	}
	defer o.unlockOwner(h, in.LockOwner)
	if !h.writable() {
		return fuse.OK
	}
	n := h.node
	n.order.Lock()
	defer n.order.Unlock()
	if w := n.writes; w != nil && w.dirty && !w.empty {
		o.closeHandle(n, h, o.closer(&in.InHeader), true)
	}
	return fuse.OK
}

// closeHandle does the same as closeContent, but it reads the attributes through the open handle h
// and does not change the caller c. If held is set, h stays open for now. The caller holds n.order.
func (o *contents) closeHandle(n *inode, h *handle, c Caller, held bool) {
	gen := n.peek()
	var sx sys.Stat
	err := sys.StatFD(h.fd, &sx)
	o.closeAs(n, n.writes, c, event.OpWrite, false, held, &sx, err, gen)
}

// Release ends a handle. No process waits for the reply. If an operation on the inode is running,
// the handle is finished in the background.
func (o *overlay) Release(_ <-chan struct{}, in *fuse.ReleaseIn) {
	h := o.handles.take(in.Fh)
	if h == nil {
		return
	}
	o.unlockHandle(h)
	if !h.writable() {
		h.node.dropHandle(h)
		o.unguard(h)
		h.release()
		return
	}
	if h.node.order.TryLock() {
		o.finish(h)
		return
	}
	o.dirty.wg.Add(1)
	go func() {
		defer o.dirty.wg.Done()
		h.node.order.Lock()
		o.finish(h)
	}()
}

// finish ends a handle that could write, and unlocks h.node.order, which the caller has locked.
func (o *contents) finish(h *handle) {
	n := h.node
	defer n.order.Unlock()
	// If a shell redirects two commands to one file, the RELEASE of the first command can arrive
	// after the second command has truncated the file. Then the close of the second command reports
	// the content.
	if w := n.writes; w != nil && w.dirty && !(w.empty && n.otherWriters(h)) {
		// The process that closed the file may be gone, so the process that wrote it or else opened
		// it counts as the closer.
		c := h.owner
		if w.writer.PID != 0 {
			c = w.writer
		}
		o.closeHandle(n, h, o.procs.refresh(c), o.releaser != nil)
	}
	if o.releaser != nil {
		fd := -1
		if h.readable {
			fd = h.fd
		}
		o.releaser.Released(n, fd)
	}
	if !n.dropHandle(h) {
		n.forgetWrites()
	}
	o.unguard(h)
	h.release()
}

// Fsync makes a file's content durable on the source and in the Observer's copy.
func (o *contents) Fsync(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	h := o.handles.get(in.Fh)
	if h == nil {
		return fuse.EBADF
	}
	err := sys.Sync(h.fd, in.FsyncFlags&1 != 0)
	if err == nil && o.obs != nil {
		o.obs.Synced(h.node, cancel)
	}
	return status(err)
}

func (o *namespace) FsyncDir(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	n, st := o.node(in.NodeId)
	if !st.Ok() {
		return st
	}
	d, err := o.dir(n)
	if err != nil {
		return status(err)
	}
	defer d.release()
	fd, err := sys.Open(d.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return status(err)
	}
	defer unix.Close(fd)
	return status(sys.Sync(fd, false))
}
