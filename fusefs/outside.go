//go:build linux || darwin

package fusefs

import (
	"path"
	"sync"
	"time"

	"cachebro/fusefs/sys"
)

// maxForgotten limits how many forgotten files are remembered. Each takes about 100 bytes.
const maxForgotten = 20_000

// moment is a point in time, in ns, by two clocks: the wall clock, which file times come from and
// which can be set back, and the monotonic clock.
type moment struct{ wall, steady int64 }

var began = time.Now()

func currentMoment() moment {
	t := time.Now()
	return moment{t.UnixNano(), int64(t.Sub(began))}
}

// outsideWrites distinguishes files made directly on the source from files that were made through
// the mount and then forgotten by the kernel. It works only while Server.SetOutside is on.
type outsideWrites struct {
	mu        sync.Mutex    // guards the fields below
	start     moment        // the first scan covers files with an older ctime
	forgotten map[key]int64 // when the kernel forgot a file, in Unix ns
}

// noteForgotten records when the kernel forgot n. Changes up to that time are already known.
func (s *outsideWrites) noteForgotten(n *inode) {
	if !n.isReg() || n.fs.obs == nil || !n.fs.outside.Load() {
		return
	}
	now := currentMoment()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.forgotten) >= maxForgotten {
		// Too many to remember. Changes before this moment will not be reported.
		clear(s.forgotten)
		s.start = now
	}
	if s.forgotten == nil {
		s.forgotten = map[key]int64{}
	}
	s.forgotten[n.key] = now.wall
}

// unknown reports whether a file with this ctime was changed directly on the source. If the clock
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
// mount began. The caller has just looked n up and the kernel did not know it: n is a new file, or
// replaced another one in an atomic save. made was taken before the lookup. If the server has made
// any file since then, n may be that file and is not reported.
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

// Beside is called after a path of the source was changed bypassing the mount. It makes the kernel
// drop its cached data of the path, and notes the change for git's fsmonitor. name means that the
// name appeared, disappeared, or leads to another file. dir means that the path is a directory.
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
			o.notifier.inode(d) // drops its cached listing
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
