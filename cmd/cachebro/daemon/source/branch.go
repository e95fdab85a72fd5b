package source

import (
	"context"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"cachebro/store/onwire"
)

// Branch returns the name of git's current branch, or the first digits of the commit if HEAD is
// detached, or "" without git.
func (s *Source) Branch(ctx context.Context) string {
	head := s.gitHead(ctx)
	if ref, ok := strings.CutPrefix(head, "ref: "); ok {
		return strings.TrimPrefix(strings.TrimSpace(ref), "refs/heads/")
	}
	if len(head) >= 40 {
		return head[:12]
	}
	return ""
}

func (s *Source) gitHead(ctx context.Context) string {
	if text, ok := s.smallFile(ctx, ".git/HEAD"); ok {
		return text
	}
	// In a worktree or submodule .git is a file that contains the path of the git directory.
	text, ok := s.smallFile(ctx, ".git")
	if !ok {
		return ""
	}
	dir, ok := strings.CutPrefix(text, "gitdir: ")
	if !ok {
		return ""
	}
	dir = strings.TrimSpace(dir)
	if !filepath.IsAbs(dir) {
		if clean := path.Clean(dir); !strings.HasPrefix(clean, "..") {
			text, _ = s.smallFile(ctx, path.Join(clean, "HEAD"))
			return text
		}
		dir = filepath.Join(s.root, dir)
	}
	if rel, inside := onwire.Below(dir, s.root); inside {
		text, _ = s.smallFile(ctx, path.Join(rel, "HEAD"))
		return text
	}
	b, err := os.ReadFile(filepath.Join(dir, "HEAD"))
	if err != nil || len(b) > 4096 {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func (s *Source) smallFile(ctx context.Context, name string) (string, bool) {
	dir, err := s.Acquire(ctx)
	if err != nil {
		return "", false
	}
	defer s.Release(dir)
	f, err := OpenBeneath(dir.File, name, false)
	if err != nil {
		return "", false
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return "", false
	}
	b, err := io.ReadAll(io.LimitReader(f, 4096))
	return strings.TrimSpace(string(b)), err == nil
}
