package mounting

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/daemon"
	"cachebro/fusefs/mounts"

	"github.com/spf13/cobra"
)

// RelocateCommand returns the command cachebro relocate.
func RelocateCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "relocate OLD [NEW]", Short: "join a project that was moved or renamed to its history",
		Long: `OLD is the directory where the project was, NEW (default: the working directory) the one
where it is now. cachebro mount suggests this command when it recognizes a project that
was moved. If NEW already has a history, that history is set aside.`,
		Example: `  cachebro relocate ~/src/old-name ~/src/new-name`,
		Args:    e.Args(1, 2),
	}
	return cli.Does(cmd, func(ctx context.Context, args []string) error {
		from, err := formerDir(e, args[0])
		if err != nil {
			return err
		}
		to, err := ExistingDir(e, cli.First(args[1:], "."))
		if err != nil {
			return err
		}
		if top, ok := mounts.Top(to); ok {
			to = top
		}
		if from == to {
			return e.Usagef("relocate: OLD and NEW are both %s", cli.Quote(to))
		}
		p := e.Paths()
		old, err := p.State(from)
		if err != nil {
			return err
		}
		if !cli.IsDir(old) {
			return cli.Hintf("cachebro status --all", "no history of %s is known", cli.Quote(from))
		}
		if _, err := os.Lstat(from); err == nil {
			return cli.Hintf("cachebro mount "+cli.Arg(from), "%s still exists, with its history", cli.Quote(from))
		}
		overlays, err := mounts.Overlays()
		if err != nil {
			return err
		}
		for _, m := range overlays {
			if m.Source == to || m.Source == from {
				return cli.Hintf("cd / && cachebro umount "+cli.Arg(m.Point), "%s is mounted", cli.Quote(m.Source))
			}
		}
		id, err := mounts.Identify(to, mounts.Identity{})
		if err != nil {
			return err
		}
		aside, err := rehome(ctx, e, from, to)
		if err != nil {
			return err
		}
		state, err := p.State(to)
		if err == nil {
			err = id.Write(state)
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(e.Stdout, "%s has the history of %s now\n", cli.Quote(to), cli.Quote(from))
		if aside != "" {
			fmt.Fprintf(e.Stdout, "the history that %s had before was set aside in %s\n", cli.Quote(to), cli.Quote(aside))
		}
		return nil
	})
}

// formerDir returns the absolute path of a directory that no longer exists. It resolves the
// symlinks in the directory's parent.
func formerDir(e *cli.Env, dir string) (string, error) {
	abs, err := e.Abs(dir)
	if err != nil {
		return "", err
	}
	if above, err := filepath.EvalSymlinks(filepath.Dir(abs)); err == nil {
		return filepath.Join(above, filepath.Base(abs)), nil
	}
	return abs, nil
}

// rehome moves the history of one root to another by renaming its state directory. If the other root
// already has a state directory, rehome moves that out of the way first, and returns its new path as
// aside. The forks of a project remain those of its history. rehome begins by ending the daemons of
// both roots, and locks both state directories until it returns.
func rehome(ctx context.Context, e *cli.Env, from, to string) (aside string, err error) {
	p := e.Paths()
	old, err := p.State(from)
	if err != nil {
		return "", err
	}
	own, err := p.State(to)
	if err != nil {
		return "", err
	}
	for root, state := range map[string]string{from: old, to: own} {
		e.EndDaemon(ctx, root)
		unlock, err := daemon.Lock(state, 0)
		if err != nil {
			return "", err
		}
		defer unlock()
	}
	setUp := slices.Contains(SetUpRoots(e), from)
	former := to + " before " + e.Now().Format("2006-01-02 15.04.05")
	if cli.IsDir(own) {
		aside, err = p.State(former)
		if err != nil {
			return "", err
		}
		if err := os.Rename(own, aside); err != nil {
			return "", fmt.Errorf("put the history of %s aside: %w", cli.Quote(to), err)
		}
	}
	if err := os.Rename(old, own); err != nil {
		if aside != "" {
			err = errors.Join(err, os.Rename(aside, own))
		}
		return "", fmt.Errorf("move the history: %w", err)
	}
	err = moveForks(e, to, former)
	if err == nil {
		err = moveForks(e, from, to)
	}
	if err != nil {
		return aside, err
	}
	if setUp {
		return aside, MarkSetUp(e, to, true)
	}
	return aside, nil
}
