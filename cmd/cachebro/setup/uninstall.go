package setup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/mounting"
	"cachebro/fusefs/mounts"
	"cachebro/hooks"
	"cachebro/hooks/clients"
	"cachebro/store/leaf/procfs"

	"github.com/spf13/cobra"
)

// UninstallCommand returns the command cachebro uninstall.
func UninstallCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "uninstall", Short: "undo everything that was set up; --history deletes the versions too",
		Long: `Unmounts all your projects, removes cachebro from your agents' configuration and from
that of each project that was set up, and ends the background processes. The binary
itself is not removed; the command that removes it is printed.`,
		Example: `  cachebro uninstall --dry-run
  cachebro uninstall
  cachebro uninstall --history --yes`,
		Args: e.Args(0, 0),
	}

	var f InitFlags
	fs := cmd.Flags()
	fs.BoolVarP(&f.dryRun, "dry-run", "n", false, "only show what would be done")
	fs.BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	history := fs.Bool("history", false, "also permanently delete all versions of all projects")
	return cli.Does(cmd, func(ctx context.Context, _ []string) error {
		base, err := e.Paths().StateBase()
		if err != nil {
			return err
		}
		overlays, err := ownMounts(e)
		if err != nil {
			return err
		}
		plans, err := planUninstall(e)
		if err != nil {
			return err
		}
		for _, p := range plans {
			showChanges(e, p.changes, false)
		}
		for _, m := range overlays {
			fmt.Fprintf(e.Stdout, "unmount %s\n", cli.Quote(m.Point))
		}
		if *history {
			fmt.Fprintf(e.Stdout, "delete the whole history in %s\n", cli.Quote(base))
		}
		if f.dryRun {
			return nil
		}
		if !f.yes {
			if err := e.Confirm("do all of this?"); err != nil {
				return err
			}
		}
		var errs []error
		for _, m := range overlays {
			if err := mounting.Umount(ctx, e, m.Point, false, false); err != nil {
				errs = append(errs, err)
			}
		}
		for _, p := range plans {
			errs = append(errs, clients.Apply(p.setup, p.changes))
		}
		for _, root := range mounting.SetUpRoots(e) {
			errs = append(errs, mounting.MarkSetUp(e, root, false))
		}
		errs = append(errs, notAtLogin(e))
		if err := errors.Join(errs...); err != nil {
			return fmt.Errorf("not everything could be undone: %w", err)
		}
		endDaemons(ctx, e)
		if *history {
			if err := hooks.ForgetRefusals(e.Paths()); err != nil {
				return err
			}
			if err := removeHistory(base); err != nil {
				return err
			}
		} else {
			fmt.Fprintf(e.Stdout, "the history stays in %s\n", cli.Quote(base))
		}
		fmt.Fprintf(e.Stdout, "last step: rm %s\n", cli.Quote(e.Exe))
		return nil
	})
}

type uninstallPlan struct {
	setup   clients.Setup
	changes []clients.Change
}

// planUninstall plans the changes to this user's files and to the files of each set-up project.
func planUninstall(e *cli.Env) ([]uninstallPlan, error) {
	var plans []uninstallPlan
	for _, root := range append([]string{""}, mounting.SetUpRoots(e)...) {
		s, err := Setup(e, InitFlags{}, root)
		if err != nil {
			return nil, err
		}
		if root != "" {
			if !cli.IsDir(root) {
				continue
			}
			s.AgentsMD = filepath.Join(root, "AGENTS.md")
		} else {
			s.Git = gitSetupBack(e, s)
		}
		changes, err := clients.PlanUninit(s, nil)
		if err != nil {
			return nil, err
		}
		changes = onlyReal(changes)
		if len(changes) > 0 {
			plans = append(plans, uninstallPlan{s, changes})
		}
	}
	return plans, nil
}

// ownMounts returns the mounts whose history is in this user's state directory. It omits mounts of
// other users and of another CACHEBRO_DIR.
func ownMounts(e *cli.Env) ([]mounts.Mount, error) {
	overlays, err := mounts.Overlays()
	if err != nil {
		return nil, err
	}
	var own []mounts.Mount
	for _, m := range overlays {
		if state, err := e.Paths().State(m.Source); err == nil && cli.IsDir(state) {
			own = append(own, m)
		}
	}
	return own, nil
}

// daemonRoots returns the projects of all running store daemons, including other users'. endDaemons
// reaches only this user's, because it uses this user's sockets.
func daemonRoots() []string {
	var roots []string
	for _, pid := range procfs.All() {
		args := procfs.Args(pid)
		if len(args) == 4 && args[1] == "daemon" && args[2] == "--root" && filepath.IsAbs(args[3]) {
			roots = append(roots, args[3])
		}
	}
	return roots
}

// endDaemons asks every running store daemon of this user to end, and waits.
func endDaemons(ctx context.Context, e *cli.Env) {
	for _, root := range daemonRoots() {
		e.EndDaemon(ctx, root)
	}
}

// removeHistory deletes cachebro's state directories and nothing else, because CACHEBRO_DIR may
// contain other files.
func removeHistory(base string) error {
	states, err := filepath.Glob(filepath.Join(base, "*-????????????????"))
	if err != nil {
		return err
	}
	for _, s := range states {
		fi, err := os.Lstat(s)
		if err != nil || !fi.IsDir() {
			continue
		}
		if st, ok := fi.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Getuid() {
			continue
		}
		if err := os.RemoveAll(s); err != nil {
			return fmt.Errorf("delete the history: %w", err)
		}
	}
	_ = os.Remove(filepath.Join(base, "clients")) // fails if it is not empty
	_ = os.Remove(base)
	return nil
}
