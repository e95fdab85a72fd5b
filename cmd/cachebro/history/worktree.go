package history

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/leaf/gitdir"
	"cachebro/store/wire"
)

// The creation of a git worktree is undone by git worktree remove, because the worktree's files and
// git's record of it belong together. It is undone only if nothing in the worktree would be lost. The
// addition of a submodule is undone in the same way, by git submodule deinit.

// worktree is the directory of a worktree or submodule.
type worktree string

// worktreesOf returns the worktrees and submodules whose record in git, or whose link to git, a plan
// would delete. It omits those of repositories that the plan removes as a whole.
func worktreesOf(base string, plan wire.GitPlan) (all []worktree) {
	unmade := wire.UnmadeDirs(plan.Steps)
	for _, s := range plan.Steps {
		if s.Do != "delete" {
			continue
		}
		name := filepath.Join(base, string(s.Path))
		dir := filepath.Dir(name)
		if path.Base(string(s.Path)) != ".git" {
			_, rest, ok := gitdir.Split(string(s.Path))
			if !ok || path.Base(rest) != "gitdir" || path.Dir(path.Dir(rest)) != "worktrees" {
				continue
			}
			link, err := os.ReadFile(name)
			if err != nil {
				continue // git has already forgotten it
			}
			dir = filepath.Dir(strings.TrimSpace(string(link)))
			if !filepath.IsAbs(dir) {
				dir = filepath.Join(filepath.Dir(name), dir)
			}
		}
		goes := false // with its repository
		for repo := range unmade {
			goes = goes || strings.HasPrefix(gitdir.Outside(dir), filepath.Join(base, repo)+"/")
		}
		if w := worktree(dir); cli.IsDir(dir) && !goes && !slices.Contains(all, w) {
			all = append(all, w)
		}
	}
	return all
}

func (w worktree) git(ctx context.Context, e *cli.Env, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", string(w)}, args...)...)
	cmd.Env = append(slices.Clip(e.Vars), "GIT_OPTIONAL_LOCKS=0") // git status would write the index
	out, err := cmd.CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil {
		err = fmt.Errorf("git %s: %w: %s", args[0], err, cli.OneLine(text))
	}
	return text, err
}

// holds describes what would be lost with a worktree: uncommitted and ignored files, and commits
// that are on no other branch, tag or remote. The worktree's own branch counts if the plan does not
// change it. A submodule is lost with its branches. holds returns "" if nothing would be lost.
func (w worktree) holds(ctx context.Context, e *cli.Env, plan wire.GitPlan) (string, error) {
	status, err := w.git(ctx, e, "status", "--porcelain", "--ignored", "--untracked-files=all")
	if err != nil {
		return "", err
	}
	if status != "" {
		first, _, _ := strings.Cut(status, "\n")
		return "uncommitted files (" + cli.OneLine(first) + ")", nil
	}
	super, err := w.super(ctx, e)
	if err != nil {
		return "", err
	}
	query := []string{"rev-list", "--max-count=1", "--branches", "HEAD", "--not"}
	if super == "" {
		query = []string{"rev-list", "--max-count=1", "HEAD", "--not"}
		if own, err := w.git(ctx, e, "symbolic-ref", "--quiet", "HEAD"); err == nil && changesRef(plan, own) {
			query = append(query, "--exclude="+strings.TrimPrefix(own, "refs/heads/"))
		}
		query = append(query, "--branches")
	}
	commit, err := w.git(ctx, e, append(query, "--tags", "--remotes")...)
	if err != nil || commit == "" {
		return "", err
	}
	return "commits that are on no other branch, tag or remote (" + commit[:min(len(commit), 10)] + ")", nil
}

// changesRef reports whether a plan may change a ref, or leaves it only because others changed it.
func changesRef(plan wire.GitPlan, ref string) bool {
	isRef := func(p []byte) bool {
		_, rest, _ := gitdir.Split(string(p))
		return rest == ref || rest == "packed-refs"
	}
	return slices.ContainsFunc(plan.Steps, func(s wire.GitStep) bool { return isRef(s.Path) }) ||
		slices.ContainsFunc(plan.Conflicts, func(x wire.Conflict) bool { return isRef(x.Path) })
}

// deletes reports whether a plan for the project at base deletes a file.
func deletes(plan wire.GitPlan, base, file string) bool {
	return slices.ContainsFunc(plan.Steps, func(s wire.GitStep) bool {
		return s.Do == "delete" && filepath.Join(base, string(s.Path)) == file
	})
}

// super returns the work tree of which w is a submodule, or "" if it is none.
func (w worktree) super(ctx context.Context, e *cli.Env) (worktree, error) {
	top, err := w.git(ctx, e, "rev-parse", "--show-superproject-working-tree")
	return worktree(top), err
}

// lock returns the file by which git locks a worktree, or "" if it is not locked.
func (w worktree) lock(ctx context.Context, e *cli.Env) (string, error) {
	dir, err := w.git(ctx, e, "rev-parse", "--absolute-git-dir")
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "locked")
	if _, err := os.Lstat(file); err != nil {
		return "", nil
	}
	return file, nil
}

// checkWorktrees returns an error if a plan would lose something in a worktree, or would remove a
// worktree that somebody locked. A lock that the plan itself deletes does not count, because
// clients lock the worktrees that they make.
func checkWorktrees(ctx context.Context, e *cli.Env, base string, plan wire.GitPlan, all []worktree) error {
	for _, w := range all {
		lock, err := w.lock(ctx, e)
		if err != nil {
			return err
		}
		if lock != "" && !deletes(plan, base, lock) {
			return cli.Hintf("git worktree unlock "+cli.Arg(string(w)), "the git worktree %s is locked", cli.Quote(string(w)))
		}
		what, err := w.holds(ctx, e, plan)
		if err != nil {
			return err
		}
		if what != "" {
			return cli.Hintf("commit and merge them, or run the same undo without --git", "the git worktree %s contains %s", cli.Quote(string(w)), what)
		}
	}
	return nil
}

// removeWorktrees makes git remove worktrees and submodules that checkWorktrees has passed. It also
// removes the git directory of a submodule if the plan does, because git accepts no submodule with that
// name while the objects are there.
func removeWorktrees(ctx context.Context, e *cli.Env, base string, plan wire.GitPlan, all []worktree) error {
	for _, w := range all {
		super, err := w.super(ctx, e)
		switch {
		case err != nil:
		case super == "":
			err = w.remove(ctx, e)
		default:
			var dir string
			dir, err = w.git(ctx, e, "rev-parse", "--absolute-git-dir")
			if err == nil {
				_, err = super.git(ctx, e, "submodule", "deinit", "--", string(w))
			}
			if err == nil && deletes(plan, base, filepath.Join(dir, "HEAD")) {
				err = os.RemoveAll(dir)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// remove makes git remove a worktree, even if it is locked.
func (w worktree) remove(ctx context.Context, e *cli.Env) error {
	common, err := w.git(ctx, e, "rev-parse", "--path-format=absolute", "--git-common-dir")
	lock := ""
	if err == nil {
		lock, err = w.lock(ctx, e)
	}
	if err == nil && lock != "" {
		_, err = w.git(ctx, e, "worktree", "unlock", string(w))
	}
	if err == nil {
		_, err = w.git(ctx, e, "--git-dir="+common, "worktree", "remove", string(w))
	}
	return err
}
