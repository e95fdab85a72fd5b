package main

import (
	"context"
	"fmt"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/leaf/text"
	"cachebro/store/wire"

	"github.com/spf13/cobra"
)

func pruneCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "prune postgres://HOST/DATABASE --keep AGE", Short: "delete the days that are older than an age",
		Long: `Deletes whole days, in UTC and by the machines' clocks, with the commands, prompts and
sessions that only those days needed. Nothing is deleted from the buckets. audit and
blame report where the remaining history begins.

Example:
  cachebro-fleet prune postgres://db/fleet --keep 90d`,
		Args: e.Args(1, 1),
	}

	fs := cmd.Flags()
	keep := fs.String("keep", "", "delete days that are older than this `AGE` (90d, 52w)")
	return cli.Does(cmd, func(ctx context.Context, args []string) error {
		age, ok := wire.ParseAge(*keep)
		if !ok || age < 24*time.Hour {
			return e.Usagef("prune: --keep %s: want an age of a day or more (90d, 52w)", cli.Quote(*keep))
		}
		d, err := open(ctx, e, args[0], 1)
		if err != nil {
			return err
		}
		defer d.Close()
		p, err := d.Prune(ctx, e.Now().Add(-age))
		fmt.Fprintf(e.Stdout, "deleted: %s; the database now begins at %s\n", text.Count(len(p.Days), "day"), p.Since.Format(time.DateOnly))
		return err
	})
}
