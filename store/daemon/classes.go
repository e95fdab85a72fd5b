package daemon

import (
	"os"
	"sync"
	"time"

	"cachebro/fusefs/ignore"
	"cachebro/store"
)

// classes answers which paths are tracked, for paths that no record from mountd
// has classified: the baseline's and those of reads without a mount.
type classes struct {
	// mu guards what follows; the Matcher itself needs no lock.
	mu   sync.Mutex
	dir  *os.File // what matcher was made for
	m    *ignore.Matcher
	made time.Time
}

// classesFor is how long a Matcher serves: without a mount nobody tells it of
// changed rule files (git's index it looks at itself).
const classesFor = 2 * time.Second

// class asks for one path. The lock is held over the Matcher's reading of rule
// files: it must not be closed meanwhile, and who asks for classes here is not
// in a hurry.
func (c *classes) class(dir *os.File, o ignore.Options, p string, isDir bool) ignore.Class {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil || c.dir != dir || time.Since(c.made) >= classesFor {
		m, err := ignore.New(dir, o)
		if err != nil {
			return ignore.Tracked // rather keep too much
		}
		if c.m != nil {
			c.m.Close()
		}
		c.m, c.dir, c.made = m, dir, time.Now()
	}
	return c.m.Class(p, isDir)
}

func (c *classes) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m != nil {
		c.m.Close()
		c.m = nil
	}
}

// classOf classifies a file's path.
func (d *Daemon) classOf(p store.Path) store.Class {
	dir, err := d.source.acquire(d.life)
	if err != nil {
		return store.Class(ignore.Tracked)
	}
	defer d.source.release(dir)
	return store.Class(d.classes.class(dir.f, d.o.Ignore, string(p), false))
}

// excluded reports whether nothing is kept of a path.
func (d *Daemon) excluded(p store.Path) bool { return d.classOf(p) == store.Class(ignore.Excluded) }
