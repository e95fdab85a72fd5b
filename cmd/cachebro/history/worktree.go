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
// git's record of it belong together. It is undone only if nothing in the worktree would be lost.

type worktree string

// worktreesOf returns the worktrees whose record in git, or whose link to git, a plan would delete.
func worktreesOf(base string, plan wire.GitPlan) (all []worktree) {
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
		if w := worktree(dir); cli.IsDir(dir) && !slices.Contains(all, w) {
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
// that are on no other branch, tag or remote. It returns "" if nothing would be lost.
func (w worktree) holds(ctx context.Context, e *cli.Env) (string, error) {
	status, err := w.git(ctx, e, "status", "--porcelain", "--ignored", "--untracked-files=all")
	if err != nil {
		return "", err
	}
	if status != "" {
		first, _, _ := strings.Cut(status, "\n")
		return "uncommitted files (" + cli.OneLine(first) + ")", nil
	}
	others := []string{"rev-list", "--max-count=1", "HEAD", "--not"}
	if own, err := w.git(ctx, e, "symbolic-ref", "--quiet", "HEAD"); err == nil {
		others = append(others, "--exclude="+strings.TrimPrefix(own, "refs/heads/"))
	}
	commit, err := w.git(ctx, e, append(others, "--branches", "--tags", "--remotes")...)
	if err != nil || commit == "" {
		return "", err
	}
	return "commits that are on no other branch, tag or remote (" + commit[:min(len(commit), 10)] + ")", nil
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
		ofPlan := func(s wire.GitStep) bool { return s.Do == "delete" && filepath.Join(base, string(s.Path)) == lock }
		if lock != "" && !slices.ContainsFunc(plan.Steps, ofPlan) {
			return cli.Hintf("git worktree unlock "+cli.Arg(string(w)), "the git worktree %s is locked", cli.Quote(string(w)))
		}
		what, err := w.holds(ctx, e)
		if err != nil {
			return err
		}
		if what != "" {
			return cli.Hintf("commit and merge them, or run the same undo without --git", "the git worktree %s contains %s", cli.Quote(string(w)), what)
		}
	}
	return nil
}

// removeWorktrees makes git remove worktrees that checkWorktrees has passed.
func removeWorktrees(ctx context.Context, e *cli.Env, all []worktree) error {
	for _, w := range all {
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
		if err != nil {
			return err
		}
	}
	return nil
}
