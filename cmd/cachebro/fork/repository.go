package fork

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"cachebro/fusefs/mounts"
	"cachebro/store/leaf/gitdir"

	"golang.org/x/sys/unix"
)

// repository is the repository of a work tree in a fork: that of the fork, or one of a directory in
// it. It is another directory's, such as the project's, or the fork's own. Only the fork's own is
// deleted when the fork is dropped.
type repository struct {
	tree    string               // the work tree
	project string               // the directory of the project that corresponds to the work tree
	exists  bool                 // the work tree has a .git
	own     bool                 // dropping the fork deletes the repository
	files   map[string]committed // the files of HEAD, if the repository is not the fork's own
}

type committed struct{ mode, object string }

// repositoryOf returns the repository of a directory of the fork, "." for the fork's.
func repositoryOf(ctx context.Context, f fork, dir string) (repository, error) {
	r := repository{tree: filepath.Join(f.Base(), dir), project: filepath.Join(f.from.Root, dir)}
	if _, err := os.Lstat(filepath.Join(r.tree, ".git")); errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	r.exists = true
	at := gitdir.Outside(r.tree)
	// Git stores the repositories of a worktree's submodules with the worktree's own files.
	submodules := filepath.Join(gitdir.Outside(f.Base()), "modules")
	r.own = at == "" || mounts.Within(at, f.Base()) || mounts.Within(at, submodules)
	if r.own {
		return r, nil
	}
	if _, err := git(ctx, r.tree, "rev-parse", "--git-dir"); err != nil {
		return r, err // for instance because the repository was moved
	}
	if _, err := git(ctx, r.tree, "rev-parse", "--verify", "--quiet", "HEAD^{commit}"); err != nil {
		return r, nil // a branch without a commit yet
	}
	out, err := git(ctx, r.tree, "ls-tree", "-r", "-z", "--full-tree", "HEAD")
	if err != nil {
		return r, err
	}
	r.files = map[string]committed{}
	for entry := range strings.SplitSeq(out, "\x00") {
		about, name, ok := strings.Cut(entry, "\t")
		if w := strings.Fields(about); ok && len(w) == 3 {
			r.files[name] = committed{mode: w[0], object: w[2]}
		}
	}
	return r, nil
}

// losesCommits reports whether dropping the fork would lose commits, because they are on no branch,
// tag or remote.
func (r repository) losesCommits(ctx context.Context) (bool, error) {
	if !r.exists {
		return false, nil
	}
	if r.own {
		return r.ownLosesCommits(ctx)
	}
	if r.files == nil {
		return false, nil
	}
	unreached := func(more ...string) (bool, error) {
		out, err := git(ctx, r.tree, append([]string{"rev-list", "--max-count=1", "HEAD", "--not", "--branches", "--tags", "--remotes"}, more...)...)
		return out != "", err
	}
	lost, err := unreached()
	if err != nil || !lost {
		return lost, err
	}
	// A detached HEAD of the project preserves commits as a branch does.
	head, err := git(ctx, r.project, "rev-parse", "--verify", "--quiet", "HEAD")
	if err != nil {
		return true, nil
	}
	return unreached(head)
}

// ownLosesCommits reports whether a repository of the fork's own has commits that the project's
// repository lacks.
func (r repository) ownLosesCommits(ctx context.Context) (bool, error) {
	out, err := git(ctx, r.tree, "for-each-ref", "--format=%(objectname)")
	if err != nil {
		return false, err
	}
	tips := strings.Fields(out)
	if head, err := git(ctx, r.tree, "rev-parse", "--verify", "--quiet", "HEAD"); err == nil {
		tips = append(tips, head)
	}
	if stashes, err := git(ctx, r.tree, "reflog", "show", "--format=%H", "refs/stash", "--"); err == nil {
		tips = append(tips, strings.Fields(stashes)...)
	}
	seen := map[string]bool{}
	for _, tip := range tips {
		if seen[tip] {
			continue
		}
		seen[tip] = true
		// An error means that the project has no such commit, or no repository at all.
		if left, err := git(ctx, r.project, "rev-list", "--max-count=1", tip, "--not", "--branches", "--tags", "--remotes", "HEAD"); err != nil || left != "" {
			return true, nil
		}
	}
	return false, nil
}

// has reports whether the fork's HEAD contains the fork's present file at a path, or lacks it if the
// fork has no such file. The file can then be restored from git, if losesCommits returned false.
func (r repository) has(path string, in *os.Root) bool {
	if r.files == nil {
		return false
	}
	c, committed := r.files[path]
	fi, err := in.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return !committed
	}
	if err != nil || !committed {
		return false
	}
	var content io.Reader
	size, mode := fi.Size(), "100644"
	switch {
	case fi.Mode()&fs.ModeSymlink != 0:
		target, err := in.Readlink(path)
		if err != nil {
			return false
		}
		content, size = strings.NewReader(target), int64(len(target))
		mode = "120000"
	case fi.Mode().IsRegular():
		if fi.Mode()&0o100 != 0 {
			mode = "100755"
		}
		f, err := in.Open(path)
		if err != nil {
			return false
		}
		defer f.Close()
		content = f
	default:
		return false
	}
	name, err := gitdir.BlobName(content, size, len(c.object))
	return err == nil && mode == c.mode && name == c.object
}
