//go:build linux || darwin

package fusefs

import (
	"bytes"
	"encoding/binary"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"cachebro/fusefs/sys"

	"golang.org/x/sys/unix"
)

// maxForgotten limits how many forgotten files are remembered. Each takes about 100 bytes.
const maxForgotten = 20_000

// moment is a point in time, in ns, by the wall clock and by the monotonic clock. File times come
// from the wall clock, which can be set back.
type moment struct{ wall, steady int64 }

var began = time.Now()

func currentMoment() moment {
	t := time.Now()
	return moment{t.UnixNano(), int64(t.Sub(began))}
}

// outsideWrites distinguishes files made directly on the source from files that were made through
// the mount and then forgotten by the kernel. It is used only while processes may write directly to
// the source (Server.SetOutside).
type outsideWrites struct {
	mu        sync.Mutex    // guards the fields below
	start     moment        // the first scan covers files with an older ctime
	forgotten map[key]int64 // when the kernel forgot a file, in Unix ns
}

// noteForgotten records that the kernel forgets n now. Changes up to this time are already known.
func (s *outsideWrites) noteForgotten(n *inode) {
	if !n.isReg() || n.fs.obs == nil || !n.fs.outside.Load() {
		return
	}
	now := currentMoment()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.forgotten) >= maxForgotten {
		// There are too many to remember. Changes that were made before now will not be reported.
		clear(s.forgotten)
		s.start = now
	}
	if s.forgotten == nil {
		s.forgotten = map[key]int64{}
	}
	s.forgotten[n.key] = now.wall
}

// unknown reports whether a file with this ctime was changed directly in the source. If the clock
// was set back, it returns true for every file that may have changed since the mount.
func (s *outsideWrites) unknown(k key, ctime int64, now moment) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ours := s.forgotten[k]
	delete(s.forgotten, k)
	since := s.start.wall
	if mounted := now.wall - (now.steady - s.start.steady); mounted < since-int64(time.Second) { // more than a clock adjustment
		since = mounted
	}
	return ctime > since && (!ours || ctime > at || at > now.wall)
}

// noteOutside reports n to the Observer if it was made or changed directly on the source since the
// mount began. The caller has just looked n up, and the kernel did not know n. So n is a new file,
// or it replaced another file in an atomic save. made is the state of o.creations before the
// lookup. If the server has made any file since then, n may be that file and is not reported.
func (o *contents) noteOutside(n *inode, sx *sys.Stat, made moveMark) {
	if o.obs == nil || !n.isReg() || !o.outside.Load() {
		return
	}
	if o.creations.running.Load() > 0 || o.creations.done.Load() != made.done {
		return
	}
	if o.outsideWrites.unknown(n.key, sx.Ctime, currentMoment()) {
		was := sx.Stat
		was.Size = 0
		o.outsideOf(n, was, sx.Stat)
	}
}

// Beside makes the kernel drop its cached data of a path, and notes the change for git's fsmonitor.
// It is called after a process has changed the path in the source without going through the mount.
// If name is set, the name appeared, disappeared, or leads to another file. If dir is set, the path
// is a directory.
func (s *Server) Beside(p string, name, dir bool) {
	o := s.fs
	switch {
	case name && dir:
		o.changes.Everything()
	case !inGit(p):
		o.changes.Note(p)
	}
	if name && p != "" {
		up, base := path.Split(p)
		if d := o.inodeAt(path.Clean("./" + up)); d != nil {
			o.notifier.name(d.id, base)
			o.notifier.inode(d) // drops the cached listing of the directory
		}
	}
	n := o.inodeAt(path.Clean("./" + p))
	if n == nil {
		return
	}
	n.forgetAbsent()
	gen := n.peek()
	var sx sys.Stat
	if o.statInode(n, &sx) != nil {
		return
	}
	changed, before := n.note(&sx, gen)
	if same := before.known && !before.young && !changed; !same {
		o.notifier.inode(n)
	}
	if n.isReg() {
		o.outsideOf(n, sx.Stat, sx.Stat)
	}
}

// inodeAt returns the inode at path p of the source, or nil if the kernel does not know it.
func (o *namespace) inodeAt(p string) *inode {
	if p == "." {
		return o.root.node
	}
	var sx sys.Stat
	if sys.StatAt(o.root.fd, p, &sx) != nil {
		return nil
	}
	return o.table.find(keyOf(&sx))
}

// CallerOf returns the Caller for a process that changed the source directly. Proc is nil if the
// process has ended.
func (s *Server) CallerOf(pid int) Caller {
	c := Caller{PID: uint32(pid), TID: uint32(pid)}
	if pid == 0 {
		return c
	}
	c.Proc = s.fs.procs.process(c.PID, trustWrite, 0)
	if c.Proc != nil {
		c.UID = c.Proc.UID
	}
	return c
}

// changing are the opcodes that may change the tree. The device loop notes each such request after
// it was carried out, even if it failed, and before the caller gets the reply.
const changing uint64 = 1<<opSetattr | 1<<opSymlink | 1<<opMknod | 1<<opMkdir | 1<<opUnlink | 1<<opRmdir | 1<<opRename | 1<<opLink |
	1<<opOpen | 1<<opWrite | 1<<opSetxattr | 1<<opRemovexattr | 1<<opCreate | 1<<opIoctl | 1<<opFallocate | 1<<opRename2 |
	1<<opCopyFileRange | 1<<opCopyFileRange64

const (
	opSetattr         = 4
	opSymlink         = 6
	opMknod           = 8
	opMkdir           = 9
	opUnlink          = 10
	opRmdir           = 11
	opRename          = 12
	opLink            = 13
	opOpen            = 14
	opWrite           = 16
	opSetxattr        = 21
	opRemovexattr     = 24
	opCreate          = 35
	opIoctl           = 39
	opFallocate       = 43
	opRename2         = 45
	opCopyFileRange   = 47
	opCopyFileRange64 = 53
)

// graceAfter is how long the kernel may show old cached data after the last process that used the
// source directly has ended.
const graceAfter = 2 * time.Second

// Changes returns the paths, relative to the root, that have changed since the call that returned
// token, and the token for the next call. If all is set, everything may have changed. The root's
// .git is left out.
func (s *Server) Changes(token string) (next string, paths []string, all bool) {
	o := s.fs
	if alone := o.aloneSince.Load(); o.outside.Load() || alone != nil && time.Since(*alone) < graceAfter {
		return o.changes.Doubt(), nil, true
	}
	return o.changes.Since(token)
}

// noteRequest notes the paths that a request changed. It looks up the path after the change, so
// after a concurrent rename it notes the new name. The rename of a parent directory is noted
// separately and covers the whole subtree.
func (o *namespace) noteRequest(op uint32, in, out []byte) {
	node, body := binary.NativeEndian.Uint64(in[16:]), in[40:]
	u32 := func(at int) uint32 {
		if len(body) < at+4 {
			return ^uint32(0)
		}
		return binary.NativeEndian.Uint32(body[at:])
	}
	u64 := func(at int) uint64 {
		if len(body) < at+8 {
			return 0
		}
		return binary.NativeEndian.Uint64(body[at:])
	}
	switch op {
	case opWrite, opFallocate, opIoctl:
		o.noteContent(node)
	case opCopyFileRange, opCopyFileRange64:
		o.noteContent(u64(16))
	case opOpen:
		if u32(0)&unix.O_TRUNC != 0 {
			o.noteContent(node)
		}
	case opSetattr:
		const owners = 1<<0 | 1<<1 | 1<<2 // mode, uid, gid
		o.noteAttributes(node, u32(0)&owners != 0)
	case opSetxattr, opRemovexattr:
		o.noteAttributes(node, bytes.Contains(body[:min(len(body), 64)], []byte("posix_acl")))
	case opUnlink, opRmdir, opSymlink:
		o.noteName(node, body, 0)
	case opMkdir, opLink:
		o.noteName(node, body, 8)
	case opMknod:
		o.noteName(node, body, 16)
	case opCreate:
		o.noteCreated(o.noteName(node, body, 16), u32(0)&unix.O_TRUNC != 0, out)
	case opRename, opRename2:
		at := 8
		if op == opRename2 {
			at = 16
		}
		o.noteName(node, body, at)
		if len(body) > at {
			if end := bytes.IndexByte(body[at:], 0); end >= 0 {
				o.noteName(u64(0), body, at+end+1)
			}
		}
	}
}

// noteName notes a name in the directory dir. The name begins at offset at of a request's body.
func (o *namespace) noteName(dir uint64, body []byte, at int) (gen uint64) {
	n := o.table.get(dir)
	if n == nil || len(body) <= at {
		o.changes.Everything()
		return 0
	}
	name := body[at:]
	if end := bytes.IndexByte(name, 0); end >= 0 {
		name = name[:end]
	}
	p := n.childPath(string(name))
	if inGit(p) {
		return 0
	}
	return o.changes.Note(p)
}

// noteContent notes all names of a file. If the file has names that we do not know, it notes that
// anything may have changed.
func (o *namespace) noteContent(id uint64) {
	n := o.table.get(id)
	if n == nil {
		o.changes.Everything()
		return
	}
	if n.noted.Load() == uint32(o.changes.Gen()) {
		return
	}
	paths, git := o.namesOf(n)
	if git {
		return
	}
	if !n.isDir() {
		var sx sys.Stat
		if o.statInode(n, &sx) != nil || int(sx.Nlink) > len(paths) {
			o.changes.Everything()
			return
		}
	}
	for range 3 {
		var first uint64
		for _, p := range paths {
			if gen := o.changes.Note(p); first == 0 {
				first = gen
			}
		}
		// If the names of the file have changed since paths was read, Changes may have been called
		// in between. Then the next write must not rely on this note.
		again, _ := o.namesOf(n)
		if slices.Equal(paths, again) {
			n.noted.Store(uint32(first))
			return
		}
		paths = again
	}
	o.changes.Everything()
}

// namesOf returns the current paths of a node. git reports whether all of them are in the root's
// .git.
func (o *namespace) namesOf(n *inode) (paths []string, git bool) {
	var buf [4]link
	names := n.links(buf[:])
	git = len(names) > 0
	for _, l := range names {
		p := l.parent.childPath(l.name)
		git = git && inGit(p)
		paths = append(paths, p)
	}
	return paths, git
}

// noteAttributes notes a change of attributes. If a directory's access rights change, its whole
// subtree may appear or disappear. If the directory was already noted since the last call of
// Changes, nothing more is needed, because the caller of Changes will look into the directory.
func (o *namespace) noteAttributes(id uint64, access bool) {
	n := o.table.get(id)
	if n == nil || !n.isDir() {
		o.noteContent(id)
		return
	}
	if !access {
		return
	}
	if p := n.LastPath(); !inGit(p) && !o.changes.Fresh(p) {
		o.changes.Everything()
	}
}

// noteCreated remembers that the only name of a new file is already noted, so that the first write
// to the file need not look for other names.
func (o *namespace) noteCreated(gen uint64, trunc bool, out []byte) {
	const nodeid, nlink = 16, 16 + 40 + 64 // in the fuse_entry_out after the reply's header
	if gen == 0 || len(out) < nlink+4 || binary.NativeEndian.Uint32(out[4:]) != 0 {
		return
	}
	id := binary.NativeEndian.Uint64(out[nodeid:])
	if binary.NativeEndian.Uint32(out[nlink:]) != 1 {
		if trunc {
			o.noteContent(id)
		}
		return
	}
	if n := o.table.get(id); n != nil {
		n.noted.Store(uint32(gen))
	}
}

// noteMoved notes that everything may have changed if a directory was renamed. If only the
// directory was noted, git would trust its cached data about the subtree. Listing all paths in the
// subtree would take too long.
func (o *namespace) noteMoved(r *rename) {
	if !o.changes.Active() || !(r.src.isDir() || r.dst != nil && r.dst.isDir()) {
		return
	}
	if !inGit(r.from.childPath(r.fromName)) || !inGit(r.to.childPath(r.toName)) {
		o.changes.Everything()
	}
}

// inGit reports whether a path is in the root's .git, which git never tracks.
func inGit(p string) bool { return strings.HasPrefix(p, ".git/") || p == ".git" }
