package source

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"cachebro/store/onwire"
)

// linkedFor is how long the list of linked worktrees stays valid.
const linkedFor = 5 * time.Second

// linkedTable caches the linked worktrees for linkedFor.
type linkedTable struct {
	mu   sync.Mutex // guards made, list
	made time.Time
	list []string
}

// Worktrees returns the paths of worktrees that are inside the project and linked to its own
// repository.
func (s *Source) Worktrees(ctx context.Context) []string {
	dir, err := s.Acquire(ctx)
	if err != nil {
		return nil
	}
	defer s.Release(dir)
	return s.linked.under(dir.File, s.root)
}

// Inside reports whether an absolute path is in the project.
func (s *Source) Inside(p string) bool {
	_, ok := onwire.Below(p, s.root)
	return ok
}

// under returns the paths, inside root, of the worktrees that "git worktree add" linked to the
// project's own repository. It reads .git/worktrees.
func (t *linkedTable) under(dir *os.File, root string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.made) < linkedFor {
		return t.list
	}
	t.made, t.list = time.Now(), nil
	f, err := OpenBeneath(dir, ".git/worktrees", false)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil
	}
	for _, name := range names {
		g, err := OpenBeneath(dir, ".git/worktrees/"+name+"/gitdir", false)
		if err != nil {
			continue
		}
		b, err := io.ReadAll(io.LimitReader(g, 8192))
		g.Close()
		if err != nil {
			continue
		}
		at := filepath.Dir(strings.TrimSpace(string(b)))
		if rel, ok := onwire.Below(at, root); ok && rel != "" {
			t.list = append(t.list, rel)
		}
	}
	return t.list
}
