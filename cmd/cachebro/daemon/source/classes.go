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

// classes determines whether paths are tracked. It serves paths that mountd has not classified,
// such as those of the baseline and of reads without a mount.
type classes struct {
	o ignore.Options

	// mu guards the fields below; the Matcher itself needs no lock.
	mu   sync.Mutex
	dir  *os.File // the directory of m
	m    *ignore.Matcher
	made time.Time
}

// classesFor is how long a Matcher is used. It is short, because without a mount nothing reports
// changed rule files. The Matcher itself notices changes of git's index.
const classesFor = 2 * time.Second

// class returns the class of one path. It holds the lock while the Matcher reads rule files, so
// that the Matcher is not closed in the meantime.
func (c *classes) class(dir *os.File, p string, isDir bool) ignore.Class {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil || c.dir != dir || time.Since(c.made) >= classesFor {
		m, err := ignore.New(dir, c.o)
		if err != nil {
			return ignore.Tracked // storing too much is the smaller mistake
		}
		if c.m != nil {
			c.m.Close()
		}
		c.m, c.dir = m, dir
		c.made = time.Now()
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

// Rules reads the rules that classify the paths in an acquired directory. The caller closes
// them.
func (s *Source) Rules(dir *Dir) (*ignore.Matcher, error) {
	m, err := ignore.New(dir.File, s.classes.o)
	if err != nil {
		return nil, fmt.Errorf("read the ignore rules: %w", err)
	}
	return m, nil
}

// Class returns the class of a file's path.
func (s *Source) Class(ctx context.Context, p store.Path) store.Class {
	dir, err := s.Acquire(ctx)
	if err != nil {
		return ignore.Tracked
	}
	defer s.Release(dir)
	return s.classes.class(dir.File, string(p), false)
}

// ClassNow returns the class of a path that may be a directory, by the present rules.
func (s *Source) ClassNow(ctx context.Context, p store.Path) store.Class {
	dir, err := s.Acquire(ctx)
	if err != nil {
		return ignore.Tracked
	}
	defer s.Release(dir)
	m, err := s.Rules(dir)
	if err != nil {
		return ignore.Tracked
	}
	defer m.Close()
	st, _, err := LstatBeneath(dir.File, string(p))
	return m.Class(string(p), err == nil && st.IsDir())
}

// Excluded reports whether a path is excluded. No versions of such a path are stored.
func (s *Source) Excluded(ctx context.Context, p store.Path) bool {
	return s.Class(ctx, p) == ignore.Excluded
}
