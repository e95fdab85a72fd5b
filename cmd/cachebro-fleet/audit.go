package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/machines"
	"cachebro/store/fleet"
	"cachebro/store/leaf/text"

	"github.com/spf13/cobra"
)

func auditCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "audit export postgres://HOST/DATABASE | verify FILE", Short: "export the history to a tamper-evident file, or verify such a file",
		Long: `export writes the versions that the flags select to standard output. Each line contains
a sum over all lines before it, and the last sum is printed to standard error. Store
that sum elsewhere, because whoever changes the file can compute its sums again, but
cannot change the stored one. verify checks such a file, and with --sum compares its
last sum. With --bucket it compares each line with what the machines have sent there,
which shows whether the database was changed before the export.`,
		Example: `  cachebro-fleet audit export postgres://db/fleet --since 30d >june.audit
  cachebro-fleet audit verify june.audit --sum 5f1c…
  cachebro-fleet audit verify june.audit --bucket s3://histories/app`,
		Args: e.Args(2, 2),
	}

	fs := cmd.Flags()
	asks := askingFlags(fs)
	want := fs.String("sum", "", "verify: fail unless the last sum of the file is this one")
	buckets := fs.StringArray("bucket", nil, "verify: compare with the history of a project at `s3://BUCKET/PREFIX`; may be repeated")
	identity := machines.IdentityFlag(e, fs)
	return cli.Does(cmd, func(ctx context.Context, args []string) error {
		switch args[0] {
		case "export":
			return export(ctx, e, asks, args[1])
		case "verify":
			return verify(ctx, e, args[1], *want, *buckets, *identity)
		}
		return e.Usagef("audit: %s is neither export nor verify", cli.Quote(args[0]))
	})
}

func export(ctx context.Context, e *cli.Env, asks asking, address string) error {
	q, err := asks.query(e)
	if err != nil {
		return err
	}
	d, err := open(ctx, e, address, 1)
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

func verify(ctx context.Context, e *cli.Env, name, want string, buckets []string, identity string) error {
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
	var with fleet.Auditor
	against := fleet.NewAgainst(ctx)
	for _, address := range buckets {
		p, b, err := bucket(e, address, identity)
		if err != nil {
			return err
		}
		against.Add(p, b)
		with = against
	}
	sum, n, err := fleet.Verify(in, with)
	if err == nil && with != nil {
		err = against.Missing()
	}
	if err != nil {
		return machines.Hinted(err)
	}
	if want != "" && want != sum {
		return fmt.Errorf("%w: its sum is %s", fleet.ErrAudit, sum)
	}
	fmt.Fprintf(e.Stdout, "whole: %s, sum %s\n", text.Count(int(n), "version"), sum)
	switch {
	case with == nil:
		fmt.Fprintln(e.Stdout, "only the file itself was checked; --bucket also compares it with what the machines have sent")
	case against.Skipped > 0:
		fmt.Fprintf(e.Stdout, "the same as in the buckets: %s of %s; not compared: %s of other projects\n", text.Count(int(against.Versions), "version"), text.Count(against.Machines, "machine"), text.Count(against.Skipped, "machine"))
	default:
		fmt.Fprintf(e.Stdout, "the same as in the buckets: %s of %s\n", text.Count(int(against.Versions), "version"), text.Count(against.Machines, "machine"))
	}
	if kept := against.Kept(); !kept.IsZero() {
		fmt.Fprintf(e.Stdout, "the database reports that everything before %s was deleted from it\n", kept.Format(time.DateOnly))
	}
	return nil
}
