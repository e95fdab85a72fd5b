//go:build linux || darwin

package fusefs

import (
	"path"
	"sync"
	"time"

	"cachebro/fusefs/sys"
)

// maxForgotten bounds how many files made through the mount are remembered after the
// kernel forgot them; about 100 bytes each.
const maxForgotten = 20_000

// moment is a time by two clocks, in ns: the one that file times come from, which can be
// set, and the monotonic one.
type moment struct{ wall, steady int64 }

var began = time.Now()

func currentMoment() moment {
	t := time.Now()
	return moment{t.UnixNano(), int64(t.Sub(began))}
}

// outsideWrites tells files that somebody made on the source from those that were made through
// the mount and then forgotten by the kernel. It only works while Server.SetOutside is on.
type outsideWrites struct {
	mu        sync.Mutex // guards the rest
	start     moment     // files with an older ctime are left to the first scan
	forgotten map[key]int64
}

// noteForgotten remembers when the kernel forgot n: changes up to then are known already.
func (s *outsideWrites) noteForgotten(n *inode) {
	if !n.isReg() || n.fs.obs == nil || !n.fs.outside.Load() {
		return
	}
	now := currentMoment()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.forgotten) >= maxForgotten {
		// Too many to remember: from now on, files that changed before now are not reported.
		clear(s.forgotten)
		s.start = now
	}
	if s.forgotten == nil {
		s.forgotten = map[key]int64{}
	}
	s.forgotten[n.key] = now.wall
}

// unknown reports whether a file with this ctime was changed without us. If the clock was
// set back, everything that may have changed since the mount counts.
func (s *outsideWrites) unknown(k key, ctime int64, now moment) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ours := s.forgotten[k]
	delete(s.forgotten, k)
	since := s.start.wall
	if mounted := now.wall - (now.steady - s.start.steady); mounted < since-int64(time.Second) { // more than an adjustment
		since = mounted
	}
	return ctime > since && (!ours || ctime > at || at > now.wall)
}

// noteOutside tells the Observer of a file that the kernel did not know and that was made
// or changed directly on the source since the mount: a new file, or one that an atomic
// save put in place of another. made was taken before the source was asked; if we have
// made a file since, it may be this one.
func (o *contents) noteOutside(n *inode, sx *sys.Stat, made moveMark) {
	if o.obs == nil || !n.isReg() || !o.outside.Load() {
		return
	}
	if o.makes.running.Load() > 0 || o.makes.done.Load() != made.done {
		return
	}
	if o.outsideWrites.unknown(n.key, sx.Ctime, currentMoment()) {
		was := sx.Stat
		was.Size = 0
		o.outsideOf(n, was, sx.Stat)
	}
}

// Beside is called when somebody did something to a path of the source without going
// through the mount: the kernel forgets what it knew of it, and git is told. name: the
// name came, went, or leads to another file now. dir: it is a directory.
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
			o.notifier.inode(d) // its listing
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

// inodeAt returns the inode that a path of the source leads to, nil if the kernel knows none.
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

// CallerOf describes a process that did something beside the mount, if it still exists.
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
