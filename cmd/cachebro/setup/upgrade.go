package setup

import (
	"context"
	"fmt"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/mounting"
	"cachebro/fusefs/mounts"
	"cachebro/fusefs/mounts/supervisor"
	"cachebro/store/wire"

	"github.com/spf13/cobra"
)

// UpgradeCommand returns the command cachebro upgrade.
func UpgradeCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "upgrade", Short: "let this version take over the mounts that an older one serves",
		Long: `Run this after installing another version; packages run it by themselves. It takes over
all your mounts that an older version serves. Programs that use them are not disturbed,
and open files stay open. Mounts that a newer version serves are left alone.

With --check nothing is changed, and the exit status is 1 if an older version still
serves a mount. The network is not used.`,
		Example: `  cachebro upgrade --check
  cachebro upgrade`,
		Args: e.Args(0, 0),
	}

	fs := cmd.Flags()
	check := fs.Bool("check", false, "only show which version serves what")
	return cli.Does(cmd, func(ctx context.Context, _ []string) error {
		overlays, err := ownMounts(e)
		if err != nil {
			return err
		}
		fmt.Fprintf(e.Stdout, "this is version %s\n", cli.Version)
		var status error
		for _, m := range overlays {
			state, err := e.Paths().State(m.Source)
			if err != nil {
				return err
			}
			record, _ := supervisor.ReadRecord(state)
			daemon, known := daemonVersion(ctx, e, m.Source)
			old := wire.Older(record.Version, cli.Version) || known && wire.Older(daemon, cli.Version)
			switch {
			case wire.Older(cli.Version, record.Version):
				fmt.Fprintf(e.Stdout, "%s is served by version %s, which is newer, and is left alone\n", cli.Quote(m.Point), record.Version)
			case !old:
				fmt.Fprintf(e.Stdout, "%s is served by this version\n", cli.Quote(m.Point))
			case *check:
				fmt.Fprintf(e.Stdout, "%s is served by version %s: cachebro upgrade takes it over\n", cli.Quote(m.Point), record.Version)
				status = cli.ExitStatus(1)
			default:
				if err := takeOver(ctx, e, m, wire.Older(record.Version, cli.Version)); err != nil {
					fmt.Fprintf(e.Stderr, "cachebro: %s is still served by version %s: %s\n", cli.Quote(m.Point), record.Version, cli.OneLine(err.Error()))
					status = cli.ExitStatus(1)
					continue
				}
				fmt.Fprintf(e.Stdout, "%s is served by this version now, instead of %s\n", cli.Quote(m.Point), record.Version)
			}
		}
		return status
	})
}

// takeOver replaces the daemon of a mount. If mountd is true, it also replaces the processes that
// serve the mount.
func takeOver(ctx context.Context, e *cli.Env, m mounts.Mount, mountd bool) error {
	if mountd {
		p, err := mounting.PlanMount(e, m.Source, mounting.MountFlags{At: m.Point, Exact: true})
		if err == nil {
			err = mounting.Renew(ctx, e, &p, true)
		}
		if err != nil {
			return err
		}
	}
	c, err := e.Connect(ctx, m.Source) // replaces an older daemon
	c.Close()
	return err
}

// daemonVersion asks a project's daemon for its version, if one is running.
func daemonVersion(ctx context.Context, e *cli.Env, root string) (string, bool) {
	c, _ := wire.Dial(ctx, e.Paths(), wire.Hello{Version: cli.Version, Client: "cli", Root: root}, wire.Timeouts{}) // if versions differ, err is set, but the hello has been received
	defer c.Close()
	v := c.Hello().Version
	return v, v != ""
}
