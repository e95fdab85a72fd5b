package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/fleet"
	"cachebro/store/leaf/text"
)

func auditCommand() cli.Command {
	return cli.Command{
		Name: "audit", Args: "export postgres://HOST/DATABASE | verify FILE", Short: "what was done, as a file that shows whether it was changed",
		Long: `export writes what the flags choose to standard output, each line with a sum over all
before it; the last sum is printed to standard error. Keep that elsewhere: whoever changes
the file can make its sums anew, but not that one. verify reads such a file again, and
with --sum compares its last sum.

Examples:
  cachebro-fleet audit export postgres://db/fleet --since 30d >june.audit
  cachebro-fleet audit verify june.audit --sum 5f1c…`,
		Run: audit,
	}
}

func audit(ctx context.Context, e *cli.Env) error {
	fs := e.Flags()
	asks := askingFlags(fs)
	want := fs.String("sum", "", "verify: the last sum that the file must have")
	args, err := e.Parse(fs, 2, 2)
	if err != nil {
		return err
	}
	switch args[0] {
	case "export":
		return export(ctx, e, asks, args[1])
	case "verify":
		return verify(e, args[1], *want)
	}
	return e.Usagef("audit: %s is neither export nor verify", cli.Quote(args[0]))
}

func export(ctx context.Context, e *cli.Env, asks asking, address string) error {
	q, err := asks.query(e)
	if err != nil {
		return err
	}
	d, err := open(ctx, e, address)
	if err != nil {
		return err
	}
	defer d.Close()
	sum, n, err := d.Export(ctx, q, e.Now(), e.Stdout)
	if err != nil {
		return explained(err)
	}
	_, err = fmt.Fprintf(e.Stderr, "%s, sum %s\n", text.Count(int(n), "version"), sum)
	return err
}

func verify(e *cli.Env, name, want string) error {
	in := io.Reader(e.Stdin)
	if name != "-" {
		path, err := e.Abs(name)
		if err != nil {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	sum, n, err := fleet.Verify(in)
	if err != nil {
		return err
	}
	if want != "" && want != sum {
		return fmt.Errorf("%w: its sum is %s", fleet.ErrAudit, sum)
	}
	_, err = fmt.Fprintf(e.Stdout, "whole: %s, sum %s\n", text.Count(int(n), "version"), sum)
	return err
}
