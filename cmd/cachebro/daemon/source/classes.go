package source

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"cachebro/store"
	"cachebro/store/leaf/ignore"
)

// classes answers which paths are tracked, for paths that no record from mountd
// has classified: the baseline's and those of reads without a mount.
type classes struct {
	o ignore.Options

	// mu guards what follows; the Matcher itself needs no lock.
	mu   sync.Mutex
	dir  *os.File // what matcher was made for
	m    *ignore.Matcher
	made time.Time
}

// classesFor is how long a Matcher serves: without a mount nobody tells it of
// changed rule files (git's index it looks at itself).
const classesFor = 2 * time.Second

// Class asks for one path. The lock is held over the Matcher's reading of rule
// files: it must not be closed meanwhile, and who asks for classes here is not
// in a hurry.
func (c *classes) class(dir *os.File, p string, isDir bool) ignore.Class {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil || c.dir != dir || time.Since(c.made) >= classesFor {
		m, err := ignore.New(dir, c.o)
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

// Rules reads the rules that classify the paths below an acquired directory. The
// caller closes them.
func (s *Source) Rules(dir *Dir) (*ignore.Matcher, error) {
	m, err := ignore.New(dir.File, s.classes.o)
	if err != nil {
		return nil, fmt.Errorf("read the ignore rules: %w", err)
	}
	return m, nil
}

// Class classifies a file's path.
func (s *Source) Class(ctx context.Context, p store.Path) store.Class {
	dir, err := s.Acquire(ctx)
	if err != nil {
		return ignore.Tracked
	}
	defer s.Release(dir)
	return s.classes.class(dir.File, string(p), false)
}

// Excluded reports whether nothing is kept of a path.
func (s *Source) Excluded(ctx context.Context, p store.Path) bool {
	return s.Class(ctx, p) == ignore.Excluded
}
