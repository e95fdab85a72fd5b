//go:build linux || darwin

package fusefs

import (
	"sync"
	"time"

	"cachebro/fusefs/sys"
)

// maxForgotten bounds how many files of our own are remembered after the kernel
// forgot them; about 100 bytes each.
const maxForgotten = 20_000

// moment is a time by two clocks, in ns: by the one that files get their times
// from, which can be set, and by the one that only goes on.
type moment struct{ wall, steady int64 }

var began = time.Now()

func now() moment {
	t := time.Now()
	return moment{t.UnixNano(), int64(t.Sub(began))}
}

// outsideWrites tells files that somebody made underneath from those that were
// made through the mount and then forgotten by the kernel. It only works while
// somebody can write underneath.
type outsideWrites struct {
	mu        sync.Mutex // guards the rest
	since     moment     // what has an older ctime is left to the first scan
	forgotten map[key]int64
}

// gone remembers that the kernel forgot n, and when: of changes up to then we
// know already.
func (s *outsideWrites) gone(n *inode) {
	if !n.isReg() || n.fs.obs == nil || !n.fs.outside.Load() {
		return
	}
	now := now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.forgotten) >= maxForgotten {
		// Too many to tell apart: what came before is not told any more.
		clear(s.forgotten)
		s.since = now
	}
	if s.forgotten == nil {
		s.forgotten = map[key]int64{}
	}
	s.forgotten[n.key] = now.wall
}

// unknown reports whether the state of a file, of this ctime, came about
// without us. Where the clock was set back, whatever may have changed since is.
func (s *outsideWrites) unknown(k key, ctime int64, now moment) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ours := s.forgotten[k]
	delete(s.forgotten, k)
	since := s.since.wall
	if mounted := now.wall - (now.steady - s.since.steady); mounted < since-int64(time.Second) { // more than an adjustment
		since = mounted
	}
	return ctime > since && (!ours || ctime > at || at > now.wall)
}

// noteOutside tells the Observer of a file that the kernel did not know and that was
// made or changed directly on the source since the mount: a new file, or one that an
// atomic save put in the place of another. made was taken before the source was
// asked; if we made a file since, it may be this one.
func (o *overlay) noteOutside(n *inode, sx *sys.Stat, made moveMark) {
	if o.obs == nil || !n.isReg() || !o.outside.Load() {
		return
	}
	if o.makes.running.Load() > 0 || o.makes.done.Load() != made.done {
		return
	}
	if o.outsideWrites.unknown(n.key, sx.Ctime, now()) {
		was := sx.Stat
		was.Size = 0
		o.outsideOf(n, was, sx.Stat)
	}
}
