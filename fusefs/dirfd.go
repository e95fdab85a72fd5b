//go:build linux || darwin

package fusefs

import (
	"sync"
	"sync/atomic"

	"cachebro/fusefs/sys"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// maxDirFDs limits the cached descriptors of directories. A tree of 11,500 files has about 1,500
// directories. A hard limit of 20,000 descriptors is common, and open files need most of them.
const maxDirFDs = 2048

// allowedDirFDs returns how many descriptors may be cached under this process's limit, which may be as
// low as 1,000.
func allowedDirFDs() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return maxDirFDs
	}
	return int(max(1, min(maxDirFDs, uint64(limit.Cur)/8)))
}

// dirfd is a descriptor (sys.Place) of a directory. refs counts its users, including the cache. The
// last user closes it.
type dirfd struct {
	fd   int
	refs atomic.Int32
	used atomic.Bool // used since the hand of the clock last passed it
	node *inode
}

func (d *dirfd) acquire() bool {
	for {
		r := d.refs.Load()
		if r <= 0 {
			return false
		}
		if d.refs.CompareAndSwap(r, r+1) {
			if !d.used.Load() {
				d.used.Store(true)
			}
			return true
		}
	}
}

func (d *dirfd) release() {
	if d.refs.Add(-1) == 0 {
		unix.Close(d.fd)
	}
}

// dirfds is a cache of descriptors. It evicts them by the clock algorithm.
type dirfds struct {
	most int
	mu   sync.Mutex // guards ring, hand
	ring []*dirfd
	hand int
}

// put caches fd for n and returns it with a reference for the caller.
func (c *dirfds) put(n *inode, fd int) *dirfd {
	d := &dirfd{fd: fd, node: n}
	d.refs.Store(2)
	d.used.Store(true)
	if !n.dirfd.CompareAndSwap(nil, d) {
		d.refs.Store(1) // another thread was faster, so only the caller uses this descriptor
		return d
	}
	c.mu.Lock()
	var out *dirfd
	if len(c.ring) < c.most {
		c.ring = append(c.ring, d)
	} else {
		for c.ring[c.hand].used.Swap(false) {
			c.hand = (c.hand + 1) % len(c.ring)
		}
		out = c.ring[c.hand]
		c.ring[c.hand] = d
		c.hand = (c.hand + 1) % len(c.ring)
	}
	c.mu.Unlock()
	if out != nil && out.node.dirfd.CompareAndSwap(out, nil) {
		out.release()
	}
	return d
}

// drop removes the descriptor of a removed or forgotten n from the cache.
func (c *dirfds) drop(n *inode) {
	d := n.dirfd.Swap(nil)
	if d == nil {
		return
	}
	d.used.Store(false)
	c.mu.Lock()
	for i, r := range c.ring {
		if r == d {
			last := len(c.ring) - 1
			c.ring[i] = c.ring[last]
			c.ring[last] = nil
			c.ring = c.ring[:last]
			if c.hand >= last {
				c.hand = 0
			}
			break
		}
	}
	c.mu.Unlock()
	d.release()
}

// closeAll empties the cache, which must not be used afterwards.
func (c *dirfds) closeAll() {
	c.mu.Lock()
	ring := c.ring
	c.ring = nil
	c.mu.Unlock()
	for _, d := range ring {
		if d.node.dirfd.CompareAndSwap(d, nil) {
			d.release()
		}
	}
}

// ReadDir lists names only.
func (o *overlay) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return o.readDir(in, func(n *inode, dir int, e fuse.DirEntry) bool {
		var found *sys.Stat
		var sx sys.Stat
		if o.devices.several() && sys.StatAt(dir, e.Name, &sx) == nil {
			found = &sx
		}
		e.Ino = o.numberIn(n, e, found)
		return out.AddDirEntry(e)
	})
}

// ReadDirPlus lists names with their inodes. Each listed inode counts as looked up.
func (o *overlay) ReadDirPlus(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return o.readDir(in, func(n *inode, dir int, e fuse.DirEntry) bool {
		if e.Name == "." || e.Name == ".." {
			e.Ino = o.numberIn(n, e, nil)
			return out.AddDirLookupEntry(e) != nil
		}
		var sx sys.Stat
		made := o.creations.start()
		found := sys.StatAt(dir, e.Name, &sx) == nil
		if found {
			e.Ino, e.Mode = o.numberIn(n, e, &sx), sx.Mode
		}
		eo := out.AddDirLookupEntry(e)
		if found && eo != nil {
			o.lookedUp(&in.InHeader, n, dir, e.Name, &sx, made, eo)
		}
		return eo != nil
	})
}

// direntOf decodes the first entry in b, which the source returned.
func direntOf(b []byte) (fuse.DirEntry, int) {
	e, size := sys.ParseDirent(b)
	return fuse.DirEntry{Ino: e.Ino, Off: e.Next, Mode: e.Mode, Name: e.Name}, size
}
