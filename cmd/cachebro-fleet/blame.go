package main

import (
	"context"
	"fmt"
	"strings"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/machines"
	"cachebro/store/fleet"

	"github.com/spf13/cobra"
)

func blameCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "blame postgres://HOST/DATABASE PATH", Short: "show who wrote each line of a file, on any machine",
		Long: `Shows the file as it is on one machine, by default the one that wrote it last. If
another machine had exactly this content at this path earlier, it must have come from
there, so the lines are attributed to that machine.

Example:
  cachebro-fleet blame postgres://db/fleet --bucket s3://histories/app src/main.go`,
		Args: e.Args(2, 2),
	}

	fs := cmd.Flags()
	address := fs.String("bucket", "", "read the contents from the project's history at `s3://BUCKET/PREFIX`")
	machine := fs.String("machine", "", "show the file as it is on the machine with this host `NAME` or id")
	identity := machines.IdentityFlag(e, fs)
	return cli.Does(cmd, func(ctx context.Context, args []string) error {
		if *address == "" {
			return e.Usagef("blame: --bucket s3://BUCKET/PREFIX is missing")
		}
		p, b, err := bucket(e, *address, *identity)
		if err != nil {
			return err
		}
		d, err := open(ctx, e, args[0], 1)
		if err != nil {
			return err
		}
		defer d.Close()
		lines, err := d.Blame(ctx, p, b, fleet.Query{Machine: *machine, Path: args[1]})
		if err != nil {
			return explained(machines.Hinted(err))
		}
		now, paint := e.Now(), e.Paint()
		for _, l := range lines {
			who := "older than the stored history (see cachebro-fleet prune)"
			if l.Seq > 0 {
				who = fmt.Sprintf("%s  %s  %-6d %s", cli.Stamp(l.Time, now), cli.OneLine(l.Machine), l.Seq, whose(l.Version))
			}
			if _, err := fmt.Fprintf(e.Stdout, "%s  %s\n", paint.Dim(who), strings.TrimRight(string(l.Text), "\r\n")); err != nil {
				return err
			}
		}
		return nil
	})
}
