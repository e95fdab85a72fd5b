//go:build linux || darwin

package fusefs

import (
	"time"

	"cachebro/fusefs/sys"
	"cachebro/store/leaf/event"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// These functions finish requests that a killed server carried out on the source but did not
// answer. They update our own state and call the Observer.

// removedBefore finishes a remove that a killed server carried out.
func (o *overlay) removedBefore(in *fuse.InHeader, t *attempt, parent *inode, name string, op event.Op) fuse.Status {
	n := o.table.find(t.a)
	if n == nil {
		n = &inode{fs: o, id: o.table.nextID.Add(1), key: t.a, kind: t.mode & unix.S_IFMT, link: link{parent: parent, name: name}}
	}
	n.order.Lock()
	defer n.order.Unlock()
	sx := t.stat()
	o.lost(n, parent, name, &sx)
	if o.obs == nil || t.wasReported() {
		return fuse.OK
	}
	p := parent.childPath(name)
	cl := o.class(p, n.isDir())
	ev := Event{Op: op, Caller: o.caller(in, true), Path: p, Stat: sx.Stat, Class: cl, Class2: cl, Time: time.Now()}
	if op == event.OpUnlink {
		ev.File = n
	}
	o.obs.Done(ev)
	t.markDone()
	return fuse.OK
}

// renamedBefore finishes a Rename that a killed server carried out.
func (o *overlay) renamedBefore(in *fuse.RenameIn, t *attempt, r *rename, fd2 int) fuse.Status {
	exchange := in.Flags&sys.Exchange != 0
	if err := sys.StatAt(fd2, r.toName, &r.srcStat); err != nil {
		return status(err)
	}
	if keyOf(&r.srcStat) != t.a {
		return fuse.ENOENT
	}
	r.src = o.table.find(t.a)
	if r.src == nil {
		r.src = o.inodeFor(r.from, r.fromName, &r.srcStat)
	}
	replaces := false
	if t.b != (key{}) && t.b != t.a {
		r.dst = o.table.find(t.b)
		replaces = r.dst != nil && !exchange
	}
	defer lock2(r.src, r.dst)()
	ev := Event{Op: event.OpRename, File: r.src, Path: r.from.childPath(r.fromName), Path2: r.to.childPath(r.toName)}
	if r.dst != nil {
		r.dstStat.Nlink = 1
	}
	if !exchange || r.dst != nil {
		o.moveInodes(r, &ev, exchange, replaces)
	}
	if o.obs == nil || t.wasReported() {
		return fuse.OK
	}
	ev.Caller, ev.Stat, ev.Time = o.caller(&in.InHeader, true), r.srcStat.Stat, time.Now()
	ev.Class, ev.Class2 = o.class(ev.Path, r.src.isDir()), o.class(ev.Path2, r.src.isDir())
	if ev.Class == ignoredEverywhere {
		ev.Class = ev.Class2
	}
	o.obs.Done(ev)
	t.markDone()
	return fuse.OK
}

// createdBefore answers with a file that an earlier server made and opened.
func (o *overlay) createdBefore(h *handle, out *fuse.CreateOut) fuse.Status {
	var sx sys.Stat
	if err := sys.StatFD(h.fd, &sx); err != nil {
		return status(err)
	}
	o.fillEntry(h.node.id, &sx, &out.EntryOut)
	out.Fh, out.OpenFlags = h.fh, openFlags(h.node, h.flags)
	return fuse.OK
}

// unmake removes a file that an earlier server made for the same request without noting it in the
// ledger, so that it can be made again. Opening it instead would fail if its mode denies access to
// its owner. unmake reports whether it removed a file.
func (t *attempt) unmake(d *dirfd, name string) bool {
	var sx sys.Stat
	return sys.StatAt(d.fd, name, &sx) == nil && t.madeEarlier(&sx, event.OpCreate) && sx.Size == 0 && sx.Nlink == 1 &&
		unix.Unlinkat(d.fd, name, 0) == nil
}

// makes reports whether op makes files of the type in mode.
func makes(op event.Op, mode uint32) bool {
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return op == event.OpMkdir
	case unix.S_IFLNK:
		return op == event.OpSymlink
	case unix.S_IFREG:
		return op == event.OpCreate
	}
	return op == event.OpMknod
}

// stat returns the attributes noted in the attempt.
func (t *attempt) stat() sys.Stat {
	return sys.Stat{Stat: event.Stat{
		Dev: t.a.dev, Ino: t.a.ino, Birth: t.a.birth,
		Mode: t.mode, Nlink: t.nlink, Size: t.size, Mtime: t.mtime,
	}}
}
