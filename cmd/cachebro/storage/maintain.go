package storage

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/wire"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// maintain sends one request to the store's daemon and prints the answer. If the daemon reports a
// problem with the store, the exit status is 1.
func maintain(ctx context.Context, e *cli.Env, dir string, r wire.StoreRequest, asJSON bool) error {
	a, err := cli.Ask[wire.StoreAnswer](ctx, e, dir, wire.MStore, r)
	if err != nil {
		return err
	}
	if asJSON {
		facts := a.Facts
		if len(facts) == 0 {
			facts = json.RawMessage("null")
		}
		err = e.PrintJSON(map[string]any{"ok": a.OK, "text": a.Text, "facts": facts})
	} else if a.Text != "" {
		_, err = fmt.Fprintln(e.Stdout, a.Text)
	}
	if err == nil && !a.OK {
		return cli.ExitStatus(1)
	}
	return err
}

func jsonFlag(fs *pflag.FlagSet) *bool {
	return fs.Bool("json", false, "print JSON")
}

// PruneCommand returns the command cachebro store prune.
func PruneCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "prune [N]", Short: "drop old versions, but keep N per file and all of the last 7 days",
		Long: `Versions that a live session or a recent undo needs are never dropped.

The store daemon prunes in the background by these limits, which it reads from its
environment when it starts: CACHEBRO_CAP (2GiB for all projects together; the largest
histories and those not written to for a week are pruned first), CACHEBRO_KEEP
(5 versions of each file) and CACHEBRO_KEEP_AGE (7d).`,
		Example: `  cachebro store prune
  cachebro store prune 2
  cachebro store prune --dry-run 2
  cachebro store prune --limits`,
		Args: e.Args(0, 1),
	}

	fs := cmd.Flags()
	limits := fs.Bool("limits", false, "only prune as the background does, until the store is within its limits")
	own := fs.Bool("own", false, "with --limits: do not prune other projects")
	_ = fs.MarkHidden("own") // fails only for an unknown flag
	dry := fs.Bool("dry-run", false, "only show what would be dropped")
	asJSON := jsonFlag(fs)
	return cli.Does(cmd, func(ctx context.Context, args []string) error {
		if *limits && (len(args) > 0 || *dry) {
			return e.Usagef("prune: --limits cannot be combined with N or --dry-run")
		}
		r := wire.StoreRequest{Do: "prune", DryRun: *dry}
		if *limits {
			r.Do = "gc"
		}
		if *own {
			r.Args = []string{"own"}
		}
		if len(args) > 0 {
			keep, err := strconv.Atoi(args[0])
			if err != nil || keep < 1 {
				return wantsNumber(e, args[0])
			}
			r.Keep = keep
		}
		return maintain(ctx, e, ".", r, *asJSON)
	})
}

// wantsNumber returns the error for an argument of prune that is not a number of versions. If the
// argument is a path, the hint names the command that prunes another project's history or drops the
// contents of a path.
func wantsNumber(e *cli.Env, arg string) error {
	const want = "prune: %s: want how many versions to keep per file, 1 or more"
	path, err := e.Abs(arg)
	if err != nil {
		return err
	}
	switch fi, err := os.Stat(path); {
	case err != nil:
		return e.Usagef(want, cli.Quote(arg))
	case fi.IsDir():
		return cli.UsageHint("cachebro store prune --dir "+cli.Arg(arg), want+"; prune works on a whole history", cli.Quote(arg))
	default:
		return cli.UsageHint("cachebro store purge "+cli.Arg(arg), want+"; to drop the contents of one path, use purge", cli.Quote(arg))
	}
}

// FsckCommand returns the command cachebro store fsck.
func FsckCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "fsck", Short: "check the store, repair what can be repaired, report the rest",
		Example: `  cachebro store fsck`,
		Args:    e.Args(0, 0),
	}

	fs := cmd.Flags()
	asJSON := jsonFlag(fs)
	return cli.Does(cmd, func(ctx context.Context, args []string) error {
		return maintain(ctx, e, ".", wire.StoreRequest{Do: "fsck"}, *asJSON)
	})
}

// PurgeCommand returns the command cachebro store purge.
func PurgeCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "purge PATH", Short: "permanently delete a path's contents from the history",
		Long:    "Use this for contents that should never have been recorded, such as a secret. It lists\nplaces that it cannot clean: backups, spare blocks of an SSD, the histories of other\nworktrees, a bucket.",
		Example: `  cachebro store purge .env.local`,
		Args:    e.Args(1, 1),
	}

	fs := cmd.Flags()
	yes := fs.BoolP("yes", "y", false, "do not ask")
	asJSON := fs.Bool("json", false, "print JSON")
	return cli.Does(cmd, func(ctx context.Context, args []string) error {
		t, err := e.Locate(args[0])
		if err != nil {
			return err
		}
		if len(t.Rel) == 0 {
			return e.Usagef("purge: %s is the whole project; name a path in it", cli.Quote(args[0]))
		}
		if !*yes {
			if err := e.Confirm("permanently delete every recorded content of " + cli.Quote(string(t.Rel)) + "?"); err != nil {
				return err
			}
		}
		if err := maintain(ctx, e, args[0], wire.StoreRequest{Do: "purge", Path: t.Rel}, *asJSON); err != nil {
			return err
		}
		return noteBucket(ctx, e, t.Root)
	})
}
