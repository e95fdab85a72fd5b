package daemon

import (
	"context"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// branch is the name of git's current branch, the first digits of a detached
// HEAD's commit, or "" without git. One small file is read, on the source.
func (d *Daemon) branch(ctx context.Context) string {
	head := d.gitHead(ctx)
	if ref, ok := strings.CutPrefix(head, "ref: "); ok {
		return strings.TrimPrefix(strings.TrimSpace(ref), "refs/heads/")
	}
	if len(head) >= 40 {
		return head[:12]
	}
	return ""
}

func (d *Daemon) gitHead(ctx context.Context) string {
	if text, ok := d.smallFile(ctx, ".git/HEAD"); ok {
		return text
	}
	// A worktree or submodule: .git is a file that says where.
	text, ok := d.smallFile(ctx, ".git")
	if !ok {
		return ""
	}
	dir, ok := strings.CutPrefix(text, "gitdir: ")
	if !ok {
		return ""
	}
	if dir = strings.TrimSpace(dir); !filepath.IsAbs(dir) {
		if clean := path.Clean(dir); !strings.HasPrefix(clean, "..") {
			text, _ = d.smallFile(ctx, path.Join(clean, "HEAD"))
			return text
		}
		dir = filepath.Join(d.o.Root, dir)
	}
	if rel, inside := below(dir, d.o.Root); inside {
		text, _ = d.smallFile(ctx, path.Join(rel, "HEAD"))
		return text
	}
	b, err := os.ReadFile(filepath.Join(dir, "HEAD"))
	if err != nil || len(b) > 4096 {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func (d *Daemon) smallFile(ctx context.Context, name string) (string, bool) {
	dir, err := d.source.acquire(ctx)
	if err != nil {
		return "", false
	}
	defer d.source.release(dir)
	f, err := openBeneath(dir.f, name, false)
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
