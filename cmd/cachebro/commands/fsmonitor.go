package commands

import (
	"context"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/fastpath"

	"github.com/spf13/cobra"
)

// fsmonitorCommand answers a person who runs "fsmonitor" by hand. Git's own calls are answered by
// package fastpath, before the command line is parsed.
func fsmonitorCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "fsmonitor 2 TOKEN", Short: "tells git which files changed (core.fsmonitor)",
		Long: `Tells git which paths changed since TOKEN, in version 2 of git's fsmonitor
protocol. The list includes ignored paths. If somebody changed files without going
through the mount, if the mount's process was replaced, or if too much changed, the
answer is that everything may have changed. Without a mount the command fails, and
git checks every file itself. cachebro init --git-fsmonitor sets it up.`,
		Example: `  cachebro init --git-fsmonitor
  cachebro fsmonitor 2 "" | tr '\0' '\n'`,
		Args: e.Args(2, 2),
	}
	return cli.Does(cmd, func(ctx context.Context, args []string) error {
		if args[0] != "2" {
			return e.Usagef("fsmonitor: only version 2 of the protocol is supported: git config core.fsmonitorHookVersion 2")
		}
		return fastpath.WriteChanges(ctx, e.Paths(), e.Dir, args[1], e.Stdout)
	})
}
