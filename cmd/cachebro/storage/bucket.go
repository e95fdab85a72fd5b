package storage

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/text"
)

// remoteDu is cachebro remote du.
func remoteDu(ctx context.Context, e *cli.Env, address, dir, identity string, asJSON bool) error {
	address, err := addressOf(ctx, e, address, dir)
	if err != nil {
		return err
	}
	b, _, err := dialed(e, address, identity)
	if err != nil {
		return err
	}
	u, err := b.Usage(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		return e.PrintJSON(u)
	}
	for _, m := range u.Machines {
		last := "nothing was sent yet"
		switch {
		case m.Unknown:
			last = "in no list of machines"
		case !m.Last.IsZero():
			last = "last " + strings.TrimSpace(cli.Stamp(m.Last, e.Now()))
		}
		fmt.Fprintf(e.Stdout, "%10s  %s  %s  %s  %s, %s of contents, %s\n", text.Bytes(m.Bytes), m.Machine.ID, cli.Quote(m.Machine.Called()),
			cli.Quote(cmp.Or(m.Machine.Root, "(encrypted)")), text.Count(int(m.Versions), "version"), text.Bytes(m.Contents), last)
	}
	fmt.Fprintf(e.Stdout, "%10s  %s\n", text.Bytes(u.Bytes), text.Count(u.Objects, "object"))
	if u.Foreign > 0 {
		fmt.Fprintf(e.Stdout, "%10s  %s there that cachebro did not put there\n", "", text.Count(u.Foreign, "object"))
	}
	return nil
}
