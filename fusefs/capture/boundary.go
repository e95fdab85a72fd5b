package capture

import (
	"strings"
	"sync"
	"sync/atomic"

	"cachebro/fusefs"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/gitdir"
	"cachebro/store/leaf/ignore"
	"cachebro/store/leaf/spool"
)

// boundary holds the names in and of excluded directories that the history knows all
// the same, because something came from there or went there. They count as ignored, so
// that a move can be taken back. What is below them counts as ignored too, except what
// an excluded directory held: that is nobody's, wherever it goes.
type boundary struct {
	n     atomic.Int32
	mu    sync.Mutex      // guards names; a leaf
	names map[string]bool // whether what is below counts too
}

// maxBoundary bounds the names, which are then forgotten: an undo names what it does not
// find.
const maxBoundary = 1 << 16

func (b *boundary) has(p string) bool {
	if b.n.Load() == 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.names[p]; ok {
		return true
	}
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
	if b.names == nil || len(b.names) >= maxBoundary {
		b.names = map[string]bool{}
	}
	b.names[p] = below
	b.n.Store(int32(len(b.names)))
}

// left forgets a name, and what is below it.
func (b *boundary) left(p string) {
	if b.n.Load() == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for q := range b.names {
		if q == p || strings.HasPrefix(q, p+"/") {
			delete(b.names, q)
		}
	}
	b.n.Store(int32(len(b.names)))
}

// known is a class, for a name that the history knows.
func (c *Capture) known(class ignore.Class, p string) ignore.Class {
	if class == ignore.Excluded && c.boundary.has(p) {
		return ignore.Ignored
	}
	return class
}

// crosses reports whether a move from one name to another is one of which the history
// hears: it crosses the boundary of what is excluded, or moves an excluded directory
// itself. A name that is excluded counts as ignored then. Where git's own files come
// from and go to is recorded in another way (see git.go).
func (c *Capture) crosses(e fusefs.Event, from, to *ignore.Class) bool {
	excludedItself := isDir(e.Stat) && (c.opaque(e.Path) || c.opaque(e.Path2))
	if *from == ignore.Excluded && *to == ignore.Excluded && !excludedItself {
		return false
	}
	if *from == ignore.Excluded && !isDir(e.Stat) && c.boundary.has(e.Path2) {
		return false // a save, say, of what the history knows there
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

// opaque reports whether an excluded name is that of the excluded directory itself.
func (c *Capture) opaque(p string) bool { return c.Class(parent(p), true) != ignore.Excluded }

// came notes that the history knows what is at a name, if it is excluded.
func (c *Capture) came(p string, f fusefs.File, dir bool) {
	if c.Class(p, dir) == ignore.Excluded {
		c.boundary.add(p, dir && f != nil && f.Mark().Load()&markExcluded == 0)
	}
}

// wasAt tells what an excluded name stood for, of which the history has not heard.
func (c *Capture) wasAt(f fusefs.File, p, target string, st event.Stat, class ignore.Class) {
	if class != ignore.Excluded || f == nil {
		return
	}
	f.Mark().Or(markExcluded)
	r := c.asFound(f, p, st, ignore.Ignored)
	r.Target = target
	if isRegular(st) && st.Size > 0 {
		r.Reason = spool.NotRead
	}
	c.append(r)
}
