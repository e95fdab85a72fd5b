package fork

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/mounting"
	"cachebro/fusefs/mounts"
)

const maxListed = 5 // how many of the paths that would be lost are listed

// dropFork unmounts and deletes a fork and its history. Without --force it refuses if the fork
// contains something that exists nowhere else.
func dropFork(ctx context.Context, e *cli.Env, f fork, o options) error {
	if !o.force {
		if err := keepsForks(e, f); err != nil {
			return err
		}
		if cli.IsDir(f.Root) {
			if err := onlyHere(ctx, e, f); err != nil {
				return err
			}
		}
	}
	if f.Point != "" {
		sub := *e
		sub.Stdout = io.Discard
		if err := mounting.Umount(ctx, &sub, f.Point, false, false); err != nil {
			return err
		}
	}
	e.EndDaemon(ctx, f.Root)
	if err := os.Chdir("/"); err != nil {
		return err
	}
	// Never delete the files of another file system that is mounted inside the fork.
	all, err := mounts.Mounts()
	if err != nil {
		return err
	}
	for _, m := range all {
		if mounts.Within(m.Point, f.Root) {
			return cli.Hintf("umount "+cli.Arg(m.Point), "the fork was unmounted but not deleted, because something is mounted on %s", cli.Quote(m.Point))
		}
	}
	// removeAll also deletes read-only directories, such as those of module caches.
	if err := removeAll(f.Root); err != nil {
		return fmt.Errorf("delete the fork: %w", err)
	}
	if f.from.Git && cli.IsDir(f.from.Root) {
		if _, err := git(ctx, f.from.Root, "worktree", "prune"); err != nil {
			fmt.Fprintf(e.Stderr, "note: git still lists the worktree: %s\n", cli.OneLine(err.Error()))
		}
	}
	if err := removeAll(f.state); err != nil {
		return fmt.Errorf("delete the fork's history: %w", err)
	}
	fmt.Fprintf(e.Stdout, "dropped %s\n", cli.Quote(f.Root))
	return nil
}

// onlyHere returns an error that lists what would be lost with the fork, or nil if nothing would.
func onlyHere(ctx context.Context, e *cli.Env, f fork) error {
	r, err := keepsCommits(ctx, f, ".")
	if err != nil {
		return err
	}
	t, err := openTrees(ctx, e, f)
	if err != nil {
		return err
	}
	defer t.close()
	into, err := e.Locate(f.from.Root)
	if err != nil {
		return err
	}
	project, err := os.OpenRoot(into.Base())
	if err != nil {
		return err
	}
	defer project.Close()
	m, err := t.planMerge(ctx, e, project)
	if err != nil {
		return err
	}
	var names []string
	for _, path := range m.paths() {
		if !r.has(path, t.fork) {
			names = append(names, cli.Quote(path))
		}
	}
	if len(names) == 0 {
		for _, dir := range t.repositories {
			if _, err := keepsCommits(ctx, f, dir); err != nil {
				return err
			}
		}
		return nil
	}
	more := ""
	if len(names) > maxListed {
		more = fmt.Sprintf(" and %d more", len(names)-maxListed)
		names = names[:maxListed]
	}
	return keep(f, "changes of %s are not in the project: %s%s", cli.Quote(f.Root), strings.Join(names, ", "), more)
}

// keep returns the error of a drop that is refused because of what exists only in the fork.
func keep(f fork, format string, args ...any) error {
	return cli.NothingDone(cli.Hintf("cachebro fork merge "+cli.Arg(f.Root)+" merges it into the project; cachebro fork drop --force deletes it", format, args...))
}

// keepsCommits returns the repository of a directory of the fork, and an error if commits would be
// lost with the fork.
func keepsCommits(ctx context.Context, f fork, dir string) (r repository, err error) {
	tree := filepath.Join(f.Root, dir)
	r, err = repositoryOf(ctx, f, dir)
	if err != nil {
		return r, keep(f, "the git repository of %s cannot be checked: %s", cli.Quote(tree), cli.OneLine(err.Error()))
	}
	switch lost, err := r.losesCommits(ctx); {
	case err != nil:
		return r, keep(f, "the commits of %s cannot be checked: %s", cli.Quote(tree), cli.OneLine(err.Error()))
	case lost && r.own:
		return r, cli.NothingDone(cli.Hintf("git -C "+cli.Arg(tree)+" push URL --all keeps them", "%s has a repository of its own, with commits that are on no branch of the project", cli.Quote(tree)))
	case lost:
		return r, cli.NothingDone(cli.Hintf("git -C "+cli.Arg(tree)+" branch NAME keeps them", "commits of %s are on no branch", cli.Quote(tree)))
	}
	return r, nil
}

// keepsForks returns an error if other forks were made from this one. They are compared with its
// history.
func keepsForks(e *cli.Env, f fork) error {
	all, err := forksOf(e, f.Root)
	if err != nil {
		return err
	}
	for _, other := range all {
		if !other.Gone {
			return cli.NothingDone(cli.Hintf("merge and drop that fork first; cachebro fork drop --force deletes this one", "%s is a fork of %s, and cannot be merged without it", cli.Quote(other.Root), cli.Quote(f.Root)))
		}
	}
	return nil
}
