package capture

import (
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"cachebro/fusefs"
	"cachebro/fusefs/sys"
	"cachebro/store/leaf/attrs"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/gitdir"
	"cachebro/store/leaf/ignore"
	"cachebro/store/leaf/spool"
)

// boundary holds the excluded names that are in the history. A name is in the history if a file or
// directory was moved from or to that name or a name below it. These names count as ignored, even
// after another file got such a name, because an undo of the move must be able to detect that file.
// If a directory was moved from a name that is not excluded, all names below it count as ignored
// too. For any other directory, the history contains only the directory itself.
type boundary struct {
	n     atomic.Int32
	mu    sync.Mutex      // guards names; a leaf lock
	names map[string]bool // true if the names in the subtree count as ignored too
}

// maxBoundary bounds the number of names. When it is exceeded, all names are dropped, and an undo
// reports the paths that it cannot find.
const maxBoundary = 1 << 16

func (b *boundary) has(p string) bool {
	if b.n.Load() == 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.names[p]
	return ok || b.inSubtree(p)
}

// hasSubtree reports whether the names below a directory count as ignored because p or a directory
// above p is in the boundary with its whole subtree.
func (b *boundary) hasSubtree(p string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.names[p] || b.inSubtree(p)
}

// inSubtree reports whether p is in the subtree of a directory whose whole subtree counts as ignored.
// The caller holds mu.
func (b *boundary) inSubtree(p string) bool {
	for up := parent(p); up != ""; up = parent(up) {
		if b.names[up] {
			return true
		}
	}
	return false
}

func (b *boundary) add(p string, below bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inSubtree(p) {
		return
	}
	if b.names == nil || len(b.names) >= maxBoundary {
		b.names = map[string]bool{}
	}
	b.names[p] = below
	b.n.Store(int32(len(b.names)))
}

// removed records that a directory was removed. If another directory gets its name, the names below
// that directory do not count as ignored.
func (b *boundary) removed(p string) {
	if b.n.Load() == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.names[p] {
		b.names[p] = false
	}
}

// moved updates the names in the subtree of a renamed directory. If two directories were exchanged,
// it updates the names in both subtrees.
func (b *boundary) moved(from, to string, exchanged bool) {
	if b.n.Load() == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	names := make(map[string]bool, len(b.names))
	for q, below := range b.names {
		if rest, in := strings.CutPrefix(q, from+"/"); in {
			q = to + "/" + rest
		} else if rest, in := strings.CutPrefix(q, to+"/"); in && exchanged {
			q = from + "/" + rest
		} else if q == from && !exchanged {
			below = false
		}
		if !inGit(q) { // nothing in .git is written by its name
			names[q] = below
		}
	}
	b.names = names
	b.n.Store(int32(len(b.names)))
}

// boundaryClass returns Ignored for an excluded name in the boundary, otherwise class.
func (c *Capture) boundaryClass(class ignore.Class, p string) ignore.Class {
	if class == ignore.Excluded && c.boundary.has(p) {
		return ignore.Ignored
	}
	return class
}

// crosses reports whether a move from or to an excluded name is recorded. A move is recorded if
// only one of the two names is excluded, or if an excluded directory itself is moved. For such a
// move, crosses also changes each excluded class to ignored. For moves of git's own files see
// git.go.
func (c *Capture) crosses(e fusefs.Event, from, to *ignore.Class) bool {
	excludedItself := e.Stat.IsDir() && (c.opaque(e.Path) || c.opaque(e.Path2))
	if *from == ignore.Excluded && *to == ignore.Excluded && !excludedItself {
		return false
	}
	if *from == ignore.Excluded && !e.Stat.IsDir() && c.boundary.has(e.Path2) {
		return false // for instance a save that replaces a file whose name is in the history
	}
	if *from == ignore.Excluded && inGit(e.Path) || *to == ignore.Excluded && inGit(e.Path2) {
		return false
	}
	*from, *to = min(*from, ignore.Ignored), min(*to, ignore.Ignored)
	return true
}

func inGit(p string) bool {
	_, _, is := gitdir.Split(p)
	return is
}

// opaque reports whether an excluded name is itself the excluded directory, not a name inside one.
func (c *Capture) opaque(p string) bool { return c.classByRules(parent(p), true) != ignore.Excluded }

// enterBoundary adds the name of a file or directory to the boundary if the name is excluded. With
// below, the history may contain what is in the directory that now has the name.
func (c *Capture) enterBoundary(p string, dir, below bool) {
	if c.classByRules(p, dir) == ignore.Excluded {
		c.enterAbove(p)
		c.boundary.add(p, below)
	}
}

// hasContents reports whether the history may contain what is in directory p.
func (c *Capture) hasContents(p string, dir bool) bool {
	return dir && (c.classByRules(p, true) != ignore.Excluded || c.boundary.hasSubtree(p))
}

// enterAbove records the excluded directories above a name if they are not in the history, and adds
// them to the boundary. An undo that needs such a directory after its removal can then make it
// again as it was.
func (c *Capture) enterAbove(p string) {
	dir := parent(p)
	if dir == "" || c.root == nil || c.Class(dir, true) != ignore.Excluded {
		return
	}
	c.enterAbove(dir)
	st, err := statDir(c.root, dir)
	if err != nil {
		c.opt.Logger.Debug("enter above", "path", p, "err", err)
		return
	}
	c.boundary.add(dir, false)
	c.append(&spool.Record{Kind: spool.KindVersion, Op: event.OpBaseline, Class: ignore.Ignored, Path: dir, Stat: st, Time: time.Now().UnixNano()})
}

// statDir returns the attributes of a directory below root.
func statDir(root *os.Root, p string) (event.Stat, error) {
	f, err := root.OpenFile(p, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return event.Stat{}, err
	}
	defer f.Close()
	var st sys.Stat
	err = sys.StatFD(int(f.Fd()), &st)
	st.Attrs = string(attrs.ReadFD(int(f.Fd())))
	return st.Stat, err
}

// recordExcluded records the state of an excluded name before a move, because the history does not
// contain that state.
func (c *Capture) recordExcluded(f fusefs.File, p, target string, st event.Stat, class ignore.Class) {
	if class != ignore.Excluded || f == nil {
		return
	}
	r := asFound(f, p, withXattrs(f, st), ignore.Ignored)
	r.Target = target
	if st.IsRegular() && st.Size > 0 {
		r.Reason = spool.NotRead
	}
	c.append(r)
}
