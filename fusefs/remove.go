//go:build linux || darwin

package fusefs

import (
	"time"

	"cachebro/fusefs/sys"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/ignore"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// inodeFor returns the inode of the file that sx describes, which was found as name in parent. The
// kernel may not know a file that was made directly in the source. For such a file, inodeFor makes
// a temporary inode, so that its content is saved too.
func (o *overlay) inodeFor(parent *inode, name string, sx *sys.Stat) *inode {
	k := keyOf(sx)
	if n := o.table.find(k); n != nil {
		n.respell(parent, name)
		n.addLink(parent, name)
		return n
	}
	return &inode{
		fs: o, id: o.table.nextID.Add(1), key: k,
		kind: sx.Mode & unix.S_IFMT, link: link{parent: parent, name: name},
	}
}

// closeBeforeRename reports the content of n, if it is dirty, as a version before n's names change.
// So the version has the right writer and the name under which its content was written. The caller
// holds n.order.
func (o *contents) closeBeforeRename(n *inode, c Caller) {
	if w := n.writes; w != nil && w.dirty {
		o.closeContent(n, c, event.OpWrite, false)
	}
}

// closeBelow closes the dirty files in the subtrees of directories that are about to be renamed.
// Files written later are closed under the new name. The caller must not hold the order of any of
// these files.
func (o *overlay) closeBelow(dirs ...*inode) {
	for _, d := range dirs {
		if d == nil || !d.isDir() {
			continue
		}
		for _, n := range o.dirty.list() {
			if n.below(d) {
				n.order.Lock()
				o.closeBeforeRename(n, Caller{})
				n.order.Unlock()
			}
		}
	}
}

// beforeNameLoss prepares n for the loss of a name. If n is dirty, it reports n as closed. Then it
// makes the Observer save the content. The caller holds n.order.
func (o *overlay) beforeNameLoss(n *inode, name string, c Caller, op event.Op, cancel <-chan struct{}) {
	if !n.isReg() {
		return
	}
	o.closeBeforeRename(n, c)
	if o.obs != nil {
		o.obs.Before(Change{File: n, Caller: c, Op: op, Name: name, Cancel: cancel})
	}
}

// nameLost removes a name from n after the name was removed in the source. The caller holds
// n.order.
func (o *contents) nameLost(n *inode, parent *inode, name string, sx *sys.Stat) {
	if !n.dropLink(parent, name) {
		o.guard(n) // the file may have been opened during the removal
	}
	if sx.Nlink <= 1 || n.isDir() {
		o.table.detach(n)
		n.removed.Store(true)
	}
	// The descriptor of a removed directory stays open until the kernel forgets the directory. A
	// process may have it as its working directory.
}

func (o *overlay) Unlink(cancel <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	return o.remove(cancel, in, name, event.OpUnlink, 0)
}

func (o *overlay) Rmdir(cancel <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	return o.remove(cancel, in, name, event.OpRmdir, unix.AT_REMOVEDIR)
}

func (o *overlay) remove(cancel <-chan struct{}, in *fuse.InHeader, name string, op event.Op, flags int) fuse.Status {
	parent, d, st := o.openParent(in.NodeId, name, fuse.ENOENT)
	if !st.Ok() {
		return st
	}
	defer d.release()
	var sx sys.Stat
	err := sys.StatAt(d.fd, name, &sx)
	if t := o.earlier(in); t != nil && (err == unix.ENOENT || err == nil && keyOf(&sx) != t.a) {
		return o.removedBefore(in, t, parent, name, op)
	}
	if err != nil {
		return status(err)
	}
	asked := name
	name = o.spelled(parent, d, asked, &sx)
	if name != asked && o.hidden(parent, name) {
		return fuse.ENOENT
	}
	n := o.inodeFor(parent, name, &sx)
	n.order.Lock()
	defer n.order.Unlock()
	var c Caller
	ev := Event{Op: op}
	if o.obs != nil {
		c = o.caller(in, true)
		ev.Path = parent.childPath(name)
		ev.Class = o.class(ev.Path, n.isDir())
		if n.kind == unix.S_IFLNK {
			ev.Target = readlink(d.fd, name)
		}
	}
	if op == event.OpUnlink {
		o.beforeNameLoss(n, ev.Path, c, op, cancel)
	}
	if o.finder != nil && (!n.isReg() || sx.Nlink > 1) {
		o.finder.Found(n, ev.Path, ev.Target, sx.Stat)
	}
	kept := o.keep(n, d.fd, name)
	t := o.try(in, &sx, nil)
	n.begin()
	err = unix.Unlinkat(d.fd, name, flags)
	n.end()
	if err != nil {
		o.releaseKept(kept)
		return status(err)
	}
	o.voidOlderReplies(in, parent, n)
	o.nameLost(n, parent, name, &sx)
	o.dropSpellings(parent, asked, name)
	if o.obs != nil {
		if op == event.OpUnlink {
			ev.File = n
		}
		ev.Caller, ev.Stat = c, sx.Stat
		ev.Class2, ev.Time = ev.Class, time.Now()
		o.obs.Done(ev)
	}
	t.markDone()
	return fuse.OK
}

// readlink returns where a symbolic link points, or "" if it cannot be read.
func readlink(dir int, name string) string {
	to, _ := sys.ReadLink(dir, name)
	return string(to)
}

type rename struct {
	from, to           *inode // directories
	fromName, toName   string // the old and the new name, in the directory's spelling
	askedFrom, askedTo string // the same names, in the spelling of the request
	newName            string // the directory's spelling of the new name after the rename
	src, dst           *inode // dst is the inode that had the new name, or nil
	srcStat, dstStat   sys.Stat
}

// Rename renames with the flags of renameat2(2).
func (o *overlay) Rename(cancel <-chan struct{}, in *fuse.RenameIn, oldName, newName string) fuse.Status {
	r := rename{fromName: oldName, toName: newName, askedFrom: oldName, askedTo: newName}
	var st fuse.Status
	r.from, st = o.node(in.NodeId)
	if !st.Ok() {
		return st
	}
	r.to, st = o.node(in.Newdir)
	if !st.Ok() {
		return st
	}
	if in.Flags&^(sys.NoReplace|sys.Exchange|sys.Whiteout) != 0 {
		return fuse.EINVAL
	}
	if o.hidden(r.from, oldName) {
		return fuse.ENOENT
	}
	if o.hidden(r.to, newName) {
		return fuse.EACCES
	}
	d1, err := o.dir(r.from)
	if err != nil {
		return status(err)
	}
	defer d1.release()
	d2, err := o.dir(r.to)
	if err != nil {
		return status(err)
	}
	defer d2.release()
	if o.hidesSpelling(r.from, d1, oldName) {
		return fuse.ENOENT
	}
	if o.hidesSpelling(r.to, d2, newName) {
		return fuse.EACCES
	}
	err = sys.StatAt(d1.fd, oldName, &r.srcStat)
	if t := o.earlier(&in.InHeader); t != nil && (err == unix.ENOENT || err == nil && keyOf(&r.srcStat) != t.a) {
		return o.renamedBefore(in, t, &r, d1.fd, d2.fd)
	}
	if err != nil {
		return status(err)
	}
	r.fromName = o.spelled(r.from, d1, oldName, &r.srcStat)
	if r.fromName != oldName && o.hidden(r.from, r.fromName) {
		return fuse.ENOENT
	}
	r.src = o.inodeFor(r.from, r.fromName, &r.srcStat)
	if err := sys.StatAt(d2.fd, newName, &r.dstStat); err == nil {
		r.toName = o.spelled(r.to, d2, newName, &r.dstStat)
		if r.toName != newName && o.hidden(r.to, r.toName) {
			return fuse.EACCES
		}
		r.dst = o.inodeFor(r.to, r.toName, &r.dstStat)
	} else if err != unix.ENOENT {
		return status(err)
	}
	o.closeBelow(r.src, r.dst)
	defer lock2(r.src, r.dst)()
	return o.rename(cancel, in, &r, d1, d2)
}

// rename does the work of Rename. The caller holds the order of both inodes.
func (o *overlay) rename(cancel <-chan struct{}, in *fuse.RenameIn, r *rename, d1, d2 *dirfd) fuse.Status {
	fd1, fd2 := d1.fd, d2.fd
	exchange := in.Flags&sys.Exchange != 0
	replaces := r.dst != nil && r.dst != r.src && in.Flags&^sys.Whiteout == 0
	var c Caller
	ev := Event{Op: event.OpRename, File: r.src}
	if o.obs != nil {
		c = o.caller(&in.InHeader, true)
		ev.Caller = c
		ev.Path, ev.Path2 = r.from.childPath(r.fromName), r.to.childPath(r.toName)
		ev.Class = o.class(ev.Path, r.src.isDir())
		ev.Class2 = o.class(ev.Path2, r.src.isDir())
		if ev.Class == ignore.Excluded {
			ev.Class = ev.Class2
		}
		if r.src.kind == unix.S_IFLNK {
			ev.Target = readlink(fd1, r.fromName)
		}
		if exchange && r.dst != nil && r.dst.kind == unix.S_IFLNK {
			ev.OtherTarget = readlink(fd2, r.toName)
		}
	}
	o.closeBeforeRename(r.src, c)
	if exchange && r.dst != nil {
		o.closeBeforeRename(r.dst, c)
	}
	var kept *handle
	if replaces {
		o.beforeNameLoss(r.dst, ev.Path2, c, event.OpRename, cancel)
	}
	if o.finder != nil {
		o.finder.Found(r.src, ev.Path, ev.Target, r.srcStat.Stat)
		if exchange || replaces && (!r.dst.isReg() || r.dstStat.Nlink > 1) {
			target := ev.OtherTarget
			if r.dst.kind == unix.S_IFLNK && target == "" {
				target = readlink(fd2, r.toName)
			}
			o.finder.Found(r.dst, ev.Path2, target, r.dstStat.Stat)
		}
	}
	if replaces {
		kept = o.keep(r.dst, fd2, r.toName)
	}
	o.moves.begin()
	defer o.moves.end()
	t := o.try(&in.InHeader, &r.srcStat, &r.dstStat)
	r.src.begin()
	if r.dst != nil && r.dst != r.src {
		r.dst.begin()
		defer r.dst.end()
	}
	err := sys.Rename(fd1, r.fromName, fd2, r.askedTo, in.Flags)
	r.src.end()
	if err != nil {
		o.releaseKept(kept)
		return status(err)
	}
	o.settleNewName(r, &ev, d2)
	if r.src == r.dst && !exchange {
		t.markDone()
		return fuse.OK // both are names of one file, so by POSIX the rename does nothing
	}
	o.voidOlderReplies(&in.InHeader, r.from, r.to, r.src)
	if r.dst != nil {
		o.voidOlderReplies(&in.InHeader, r.dst)
	}
	o.moveInodes(r, &ev, exchange, replaces)
	if o.obs != nil {
		gen := r.src.peek()
		var sx sys.Stat
		if sys.StatAt(fd2, r.askedTo, &sx) == nil {
			r.src.note(&sx, gen)
		}
		ev.Stat, ev.Time = sx.Stat, time.Now()
		o.obs.Done(ev)
		reportWhiteout(o, in, r, ev, fd1)
	}
	t.markDone()
	return fuse.OK
}

// reportWhiteout reports the device that a rename with the flag Whiteout made under the old name. fd1
// is the directory of that name, and ev is the rename, which has been reported.
func reportWhiteout(o *overlay, in *fuse.RenameIn, r *rename, ev Event, fd1 int) {
	var sx sys.Stat
	if in.Flags&sys.Whiteout == 0 || sys.StatAt(fd1, r.fromName, &sx) != nil {
		return
	}
	class := o.class(ev.Path, false)
	o.obs.Done(Event{Op: event.OpMknod, File: o.inodeFor(r.from, r.fromName, &sx), Caller: ev.Caller, Path: ev.Path, Stat: sx.Stat, Class: class, Class2: class, Time: ev.Time})
}

// moveInodes gives the inodes their new names after the change in the source. The caller holds the
// order of both inodes.
func (o *contents) moveInodes(r *rename, ev *Event, exchange, replaces bool) {
	switch {
	case exchange:
		ev.Op, ev.Replaced = event.OpExchange, r.dst
		r.src.moveLink(r.from, r.fromName, r.to, r.toName)
		r.dst.moveLink(r.to, r.toName, r.from, r.fromName)
	default:
		if replaces {
			o.nameLost(r.dst, r.to, r.toName, &r.dstStat)
			ev.Replaced, ev.ReplacedStat = r.dst, r.dstStat.Stat
		}
		r.src.moveLink(r.from, r.fromName, r.to, r.newName)
	}
	o.noteMoved(r)
}
