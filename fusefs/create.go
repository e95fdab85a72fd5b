//go:build linux || darwin

package fusefs

import (
	"maps"
	"sync"
	"time"

	"cachebro/fusefs/sys"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/ignore"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// attrsChanged reports to the Observer a new mode, owner or attributes of n. was is n's state before
// the change. While n is dirty, the reported size and time are those of the content that the Observer has received. The new content is
// reported later, with its own size and time.
func (o *contents) attrsChanged(n *inode, in *fuse.InHeader, was event.Stat, sx *sys.Stat) {
	if o.obs == nil || n.neverClosed() || sx.Nlink == 0 { // the first close reports a new file; a file without a name has no path to report
		return
	}
	st := sx.Stat
	if w := n.writes; w != nil && w.dirty && w.before != (stamp{}) {
		st.Size, st.Mtime = w.before.size, w.before.mtime
	}
	p := n.LastPath()
	cl := o.class(p, n.isDir())
	o.obs.Done(Event{
		Op: event.OpChmod, File: n, Caller: o.caller(in, true), Path: p, Stat: st, Was: was,
		Class: cl, Class2: cl, Time: time.Now(),
	})
}

// reportNames reports every name of n to the Observer before n gets another name or its mode, owner
// or attributes change. It returns n's present state, unless n is new.
func (o *namespace) reportNames(n *inode) event.Stat {
	if o.finder == nil || n.neverClosed() {
		return event.Stat{}
	}
	var sx sys.Stat
	if err := o.statInode(n, &sx); err != nil {
		return event.Stat{}
	}
	o.finder.FoundAll(n, "", o.target(n), sx.Stat)
	return sx.Stat
}

// target returns where a symbolic link points, or "" if it cannot be read.
func (o *namespace) target(n *inode) string {
	if n.kind != unix.S_IFLNK {
		return ""
	}
	for l := range n.eachLink() {
		if d, err := o.dir(l.parent); err == nil {
			defer d.release()
			return readlink(d.fd, l.name)
		}
	}
	return ""
}

// newMode returns the mode for a new file in dir. If the source has access control lists, the
// kernel leaves the umask to us. A default list of the directory takes the place of the umask.
func (o *namespace) newMode(dir *dirfd, mode, umask uint32) uint32 {
	n := dir.node
	if o.acl && !n.lacks(sys.DefaultACL) {
		gen := n.peek()
		if _, err := sys.GetXattr(sys.FD(dir.fd), sys.DefaultACL, nil); err == nil {
			return mode
		}
		n.noteAbsent(sys.DefaultACL, gen)
	}
	return mode &^ umask
}

// Create makes and opens a file. The file may exist if it was made in the source after the kernel
// looked it up.
func (o *overlay) Create(cancel <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	parent, st := o.node(in.NodeId)
	if !st.Ok() {
		return st
	}
	if o.hidden(parent, name) {
		return fuse.EACCES
	}
	if h := o.openedBefore(&in.InHeader); h != nil {
		return o.createdBefore(h, out)
	}
	d, err := o.dir(parent)
	if err != nil {
		return status(err)
	}
	defer d.release()
	if o.hidesSpelling(parent, d, name) {
		return fuse.EACCES
	}
	earlier := o.earlier(&in.InHeader)
	o.try(&in.InHeader, nil, nil)
	fd, err := -1, error(nil)
	o.creations.begin()
	defer o.creations.end()
	create := func() (err error) {
		flags := createFlags(in.Flags)
		fd, err = sys.Open(d.fd, name, flags|unix.O_CREAT|unix.O_EXCL, o.newMode(d, in.Mode, in.Umask))
		return err
	}
	err = o.asCaller(&in.InHeader, create)
	if err == unix.EEXIST && earlier.unmake(d, name) {
		err = o.asCaller(&in.InHeader, create)
	}
	if err == unix.EEXIST && in.Flags&unix.O_EXCL == 0 {
		return o.createExisting(cancel, d, parent, in, name, out)
	}
	var sx sys.Stat
	err = statNew(fd, err, &sx)
	if err != nil {
		return status(err)
	}
	o.voidOlderReplies(&in.InHeader, parent)
	n, _ := o.entry(parent, d, name, &sx, &out.EntryOut)
	c := o.caller(&in.InHeader, true)
	o.created(n, c, fd, in, &sx, &out.OpenOut)
	return fuse.OK
}

// createFlags returns the flags for our own descriptor, which can always read, even if the file's
// mode denies it.
func createFlags(flags uint32) int {
	f := int(flags) & keepFlags
	if f&unix.O_ACCMODE == unix.O_WRONLY {
		f = f&^unix.O_ACCMODE | unix.O_RDWR
	}
	return f
}

// created registers a new file. The file is dirty from the start, so that its first close is
// reported even if nothing was written.
func (o *contents) created(n *inode, c Caller, fd int, in *fuse.CreateIn, sx *sys.Stat, out *fuse.OpenOut) {
	n.order.Lock()
	defer n.order.Unlock()
	now := time.Now()
	n.writes = &writes{dirty: true, created: true, empty: true, last: now, writer: c}
	o.ledger.flag(n, nodeDirty|nodeCreated, true)
	o.dirty.add(n)
	o.opened(n, fd, in.Flags, c, true, in.Unique, out)
	if sx.Mode&0o600 != 0o600 && !o.us.root {
		o.guard(n) // git makes its objects read-only, so an object could not be opened again
	}
	if o.obs != nil && !n.nameless() {
		p := n.LastPath()
		cl := o.class(p, false)
		o.obs.Done(Event{Op: event.OpCreate, File: n, Caller: c, Path: p, Stat: sx.Stat, Class: cl, Class2: cl, Time: now})
	}
	if in.Flags&unix.O_ACCMODE == unix.O_RDONLY {
		o.closeContent(n, c, event.OpCreate, false) // the kernel will send no FLUSH
	}
}

func (o *overlay) createExisting(cancel <-chan struct{}, d *dirfd, parent *inode, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	var sx sys.Stat
	if err := sys.StatAt(d.fd, name, &sx); err != nil {
		return status(err)
	}
	if !sx.IsRegular() {
		return fuse.Status(unix.EEXIST)
	}
	n, is := o.entry(parent, d, name, &sx, &out.EntryOut)
	if is != name && o.hidden(parent, is) {
		o.Forget(n.id, 1)
		return fuse.EACCES
	}
	open := fuse.OpenIn{InHeader: in.InHeader, Flags: in.Flags, Mode: in.OpenFlags}
	open.NodeId = n.id
	st := o.Open(cancel, &open, &out.OpenOut)
	if !st.Ok() {
		o.Forget(n.id, 1)
	}
	return st
}

// nameless reports whether n has no name left or never had one.
func (n *inode) nameless() bool {
	n.fs.tree.RLock()
	defer n.fs.tree.RUnlock()
	return n.gone
}

// Mknod makes a FIFO, a socket, a device or a regular file. A regular file is empty or comes from
// prepared.
func (o *overlay) Mknod(_ <-chan struct{}, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	mk := func(dir *dirfd) error {
		return sys.Mknod(dir.fd, name, o.newMode(dir, in.Mode, in.Umask), int(in.Rdev))
	}
	if in.Mode&unix.S_IFMT != unix.S_IFREG {
		return o.make(&in.InHeader, name, event.OpMknod, "", out, mk, nil)
	}
	fd := -1
	if f, ok := o.prepared.take(&in.InHeader, name); ok {
		mk = func(dir *dirfd) (err error) {
			fd, err = makePrepared(dir.fd, f)
			return err
		}
	}
	st := o.make(&in.InHeader, name, event.OpCreate, "", out, mk, func(n *inode, size int64) {
		n.order.Lock()
		defer n.order.Unlock()
		o.closeMade(n, o.caller(&in.InHeader, true), size, fd)
	})
	if fd >= 0 {
		unix.Close(fd)
	}
	return st
}

func (o *overlay) Mkdir(_ <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	return o.make(&in.InHeader, name, event.OpMkdir, "", out, func(dir *dirfd) error {
		return unix.Mkdirat(dir.fd, name, o.newMode(dir, in.Mode, in.Umask)&0o7777)
	}, nil)
}

func (o *overlay) Symlink(_ <-chan struct{}, in *fuse.InHeader, target, name string, out *fuse.EntryOut) fuse.Status {
	return o.make(in, name, event.OpSymlink, target, out, func(dir *dirfd) error {
		return unix.Symlinkat(target, dir.fd, name)
	}, nil)
}

// make calls mk, as the caller, to make name in the directory in.NodeId, and reports the operation.
// If made is not nil, it is called to report the content.
func (o *overlay) make(in *fuse.InHeader, name string, op event.Op, target string, out *fuse.EntryOut, mk func(dir *dirfd) error, made func(n *inode, size int64)) fuse.Status {
	parent, d, st := o.openParent(in.NodeId, name, fuse.EACCES)
	if !st.Ok() {
		return st
	}
	defer d.release()
	o.creations.begin()
	defer o.creations.end()
	earlier := o.earlier(in)
	t := o.try(in, nil, nil)
	err := o.asCaller(in, func() error { return mk(d) })
	var sx sys.Stat
	if err == unix.EEXIST && sys.StatAt(d.fd, name, &sx) == nil && earlier.madeEarlier(&sx, op) {
		err = nil
	}
	if err != nil {
		return status(err)
	}
	if err := sys.StatAt(d.fd, name, &sx); err != nil {
		return status(err)
	}
	o.voidOlderReplies(in, parent)
	n, is := o.entry(parent, d, name, &sx, out)
	if o.obs != nil {
		p := parent.childPath(is)
		cl := o.class(p, n.isDir())
		o.obs.Done(Event{
			Op: op, File: n, Caller: o.caller(in, true), Path: p, Target: target,
			Stat: sx.Stat, Class: cl, Class2: cl, Time: time.Now(),
		})
	}
	if made != nil {
		made(n, sx.Size)
	}
	t.markDone()
	return fuse.OK
}

// Link gives a file another name. A file that was made without a name gets its first name.
func (o *overlay) Link(_ <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	n, st := o.node(in.Oldnodeid)
	if !st.Ok() {
		return st
	}
	parent, d, st := o.openParent(in.NodeId, name, fuse.EACCES)
	if !st.Ok() {
		return st
	}
	defer d.release()
	n.order.Lock()
	defer n.order.Unlock()
	first, old := n.nameless(), n.Path()
	c := o.caller(&in.InHeader, true)
	if !first {
		o.reportNames(n)
		o.closeBeforeRename(n, c)
	}
	n.begin()
	err := o.link(n, d.fd, name)
	n.end()
	var sx sys.Stat
	if err == unix.EEXIST && in.Unique&resendBit != 0 && sys.StatAt(d.fd, name, &sx) == nil && keyOf(&sx) == n.key {
		err = nil // an earlier server made this link just before it was killed
	}
	if err != nil {
		return status(err)
	}
	o.voidOlderReplies(&in.InHeader, parent, n)
	gen := n.peek()
	if err := sys.StatAt(d.fd, name, &sx); err != nil {
		n.addLink(parent, name)
		return status(err)
	}
	_, name = o.entry(parent, d, name, &sx, out)
	n.note(&sx, gen)
	if o.obs == nil {
		return fuse.OK
	}
	p := parent.childPath(name)
	cl := o.class(p, false)
	ev := Event{Op: event.OpLink, File: n, Caller: c, Path: old, Path2: p, Target: o.target(n), Stat: sx.Stat, Class: cl, Class2: cl, Time: time.Now()}
	if first {
		ev.Op = event.OpCreate
		ev.Path, ev.Path2 = p, ""
	} else if cl1 := o.class(old, false); cl1 != ignore.Excluded {
		ev.Class = cl1
	}
	o.obs.Done(ev)
	if first {
		o.closeMade(n, c, sx.Size, -1)
	}
	return fuse.OK
}

// closeMade reports the content of a file that just got its first name, even if the file is still
// being written. fd is a descriptor of the file, or -1. The caller holds n.order.
func (o *contents) closeMade(n *inode, c Caller, size int64, fd int) {
	if n.writes == nil {
		n.writes = &writes{writer: c}
	}
	w := n.writes
	w.dirty, w.created = true, true
	w.tail, w.size = 0, size
	o.dirty.add(n)
	if fd < 0 || o.releaser == nil {
		o.closeContent(n, c, event.OpCreate, false)
		return
	}
	gen := n.peek()
	var sx sys.Stat
	err := sys.StatFD(fd, &sx)
	o.closeAs(n, w, c, event.OpCreate, false, true, &sx, err, gen) // c waits for our reply, so it still runs the same program
	o.releaser.Released(n, fd)
}

// link makes the new name in the source. The caller holds n.order.
func (o *namespace) link(n *inode, dir int, name string) error {
	for l := range n.eachLink() {
		p, err := o.dir(l.parent)
		if err != nil {
			continue
		}
		err = unix.Linkat(p.fd, l.name, dir, name, 0)
		p.release()
		if err != nil {
			if gone(err) {
				continue
			}
			return err
		}
		var sx sys.Stat
		if sys.StatAt(dir, name, &sx) == nil && keyOf(&sx) == n.key {
			return nil
		}
		_ = unix.Unlinkat(dir, name, 0) // the new link leads to a different file
	}
	h := n.anyHandle(false)
	if h == nil {
		return unix.ESTALE
	}
	defer h.release()
	return sys.LinkFD(h.fd, dir, name)
}

const (
	// maxPrepared limits the threads that can have prepared files, and so the memory for them. A
	// thread has at most 64 KiB, because an attribute cannot be longer.
	maxPrepared = 64
	// preparedFor is how long a prepared file waits for its mknod(2).
	preparedFor = 10 * time.Second
)

// prepared holds the files that threads are about to make. A client that carries out a plan
// prepares many files in one request, then makes each with one request instead of seven. Each file
// appears complete, in one operation. If a preparation is lost, for instance at a take-over, the
// request that makes the file makes an empty file. The client checks for that.
type prepared struct {
	mu sync.Mutex
	by map[uint32]preparation // each thread's last preparation; nil while no timer runs
}

type preparation struct {
	owner fuse.Owner
	dir   uint64 // node id
	at    time.Time
	files map[string]event.PreparedFile
}

// put stores the files that a thread prepares. They replace the files that the thread prepared
// earlier.
func (p *prepared) put(in *fuse.InHeader, data []byte) fuse.Status {
	files, err := event.DecodePrepared(data)
	if err != nil {
		return fuse.EINVAL
	}
	if in.Pid == 0 { // threads in other pid namespaces all have this number
		return fuse.EAGAIN
	}
	of := preparation{owner: in.Owner, dir: in.NodeId, at: time.Now(), files: make(map[string]event.PreparedFile, len(files))}
	for _, f := range files {
		of.files[string(f.Name)] = f
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, had := p.by[in.Pid]; !had && len(p.by) >= maxPrepared {
		return fuse.EAGAIN
	}
	if p.by == nil {
		p.by = map[uint32]preparation{}
		time.AfterFunc(preparedFor, p.expire)
	}
	p.by[in.Pid] = of
	return fuse.OK
}

func (p *prepared) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.by, func(_ uint32, of preparation) bool { return time.Since(of.at) >= preparedFor })
	if len(p.by) == 0 {
		p.by = nil
		return
	}
	time.AfterFunc(preparedFor, p.expire)
}

// take removes and returns the file that the calling thread prepared for a name in the directory
// in.NodeId.
func (p *prepared) take(in *fuse.InHeader, name string) (event.PreparedFile, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := p.by[in.Pid]
	f, ok := of.files[name]
	if !ok || of.dir != in.NodeId || of.owner != in.Owner || time.Since(of.at) > preparedFor {
		return f, false
	}
	delete(of.files, name)
	if len(of.files) == 0 {
		delete(p.by, in.Pid)
	}
	return f, true
}

// makePrepared makes a prepared file and returns its descriptor. It sets the file's time last, so a
// file with that time is complete. It does not set the owner, because only the kernel knows whether
// the caller may set it.
func makePrepared(dir int, f event.PreparedFile) (fd int, err error) {
	fd, err = sys.Open(dir, string(f.Name), unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, f.Mode&0o777)
	if err != nil {
		return -1, err
	}
	for done := 0; err == nil && done < len(f.Content); {
		var n int
		n, err = unix.Pwrite(fd, f.Content[done:], int64(done))
		done += max(n, 0)
		if err == unix.EINTR {
			err = nil
		}
	}
	if err == nil {
		t := unix.NsecToTimespec(f.Mtime)
		err = sys.SetTimes(sys.FD(fd), sys.Unchanged, sys.Time{Sec: int64(t.Sec), Nsec: uint32(t.Nsec)})
	}
	if err != nil {
		_ = unix.Unlinkat(dir, string(f.Name), 0)
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// statNew reads the attributes of the new file fd, unless creating it failed with err. It closes fd
// if it returns an error.
func statNew(fd int, err error, sx *sys.Stat) error {
	if err == nil {
		err = sys.StatFD(fd, sx)
	}
	if err != nil && fd >= 0 {
		unix.Close(fd)
	}
	return err
}
