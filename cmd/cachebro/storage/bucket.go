package storage

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/machines"
	"cachebro/store/leaf/text"
	"cachebro/store/remote"
	"cachebro/store/wire"

	"github.com/spf13/cobra"
)

type bucketFlags struct {
	older, grace     string
	whole, dry, json bool
}

// bucketCommand completes a command that maintains a bucket. The bucket is the command's argument
// or, without one, the bucket of this project.
func bucketCommand(e *cli.Env, cmd *cobra.Command, l *bucketFlags, run func(context.Context, *cli.Env, *remote.Bucket, bucketFlags) error) *cobra.Command {
	cmd.Use += " [s3://BUCKET/PREFIX]"
	cmd.Args = e.Args(0, 1)
	fs := cmd.Flags()
	fs.BoolVar(&l.json, "json", false, "print JSON")
	identity := machines.IdentityFlag(e, fs)
	return cli.Does(cmd, func(ctx context.Context, args []string) error {
		address, err := addressOf(ctx, e, cli.First(args, ""))
		if err != nil {
			return err
		}
		b, _, err := dialed(e, address, *identity)
		if err != nil {
			return err
		}
		return machines.Hinted(run(ctx, e, b, *l))
	})
}

func bucketDuCommand(e *cli.Env) *cobra.Command {
	return bucketCommand(e, &cobra.Command{
		Use: "du", Short: "show how much space each machine's history takes in the bucket",
		Example: "  cachebro remote du s3://backups/app",
	}, &bucketFlags{}, remoteDu)
}

func bucketFsckCommand(e *cli.Env) *cobra.Command {
	l := &bucketFlags{}
	cmd := &cobra.Command{
		Use: "fsck", Short: "check that the bucket holds what was sent",
		Example: "  cachebro remote fsck --whole",
	}
	cmd.Flags().BoolVar(&l.whole, "whole", false, "read and verify all contents")
	return bucketCommand(e, cmd, l, remoteFsck)
}

func bucketPruneCommand(e *cli.Env) *cobra.Command {
	l := &bucketFlags{}
	cmd := &cobra.Command{
		Use: "prune", Short: "drop old contents from the bucket",
		Long: `Drops contents that were sent longer ago than --older and that newer versions have
replaced. The versions stay in the log, and the newest version of each file keeps its
content. A run marks such contents, and deletes those that were marked at least a day ago
(--grace), so run it daily. Machines that send or read meanwhile lose nothing. It needs
the rights to list and delete objects in the bucket.`,
		Example: "  cachebro remote prune --older 30d --dry-run",
	}
	fs := cmd.Flags()
	fs.StringVar(&l.older, "older", "", "drop contents that were sent longer ago than this `AGE` (30d, 12w) and replaced since")
	fs.StringVar(&l.grace, "grace", "", "delete contents that were marked longer ago than this `AGE` (default 24h)")
	fs.BoolVar(&l.dry, "dry-run", false, "only show what would be done")
	return bucketCommand(e, cmd, l, remotePrune)
}

func remoteDu(ctx context.Context, e *cli.Env, b *remote.Bucket, l bucketFlags) error {
	u, err := b.Usage(ctx)
	if err != nil {
		return err
	}
	if l.json {
		err = e.PrintJSON(u)
	} else {
		printUsage(e, u)
	}
	if err == nil && slices.ContainsFunc(u.Machines, func(m remote.MachineUsage) bool { return m.Problem != "" }) {
		return cli.ExitStatus(1)
	}
	return err
}

func printUsage(e *cli.Env, u remote.Usage) {
	for _, m := range u.Machines {
		last := "nothing was sent yet"
		switch {
		case m.Problem != "":
			last = cli.OneLine(m.Problem)
		case m.Unknown:
			last = "not in the list of machines"
		case !m.Last.IsZero():
			last = "last " + cli.Stamp(m.Last, e.Now())
		}
		fmt.Fprintf(e.Stdout, "%10s  %s  %s  %s  %s, %s of contents, %s\n", text.Bytes(m.Bytes), m.Machine.ID, cli.Quote(m.Machine.Called()),
			cli.Quote(cmp.Or(m.Machine.Root, "(encrypted)")), text.Count(int(m.Versions), "version"), text.Bytes(m.Contents), last)
	}
	fmt.Fprintf(e.Stdout, "%10s  %s\n", text.Bytes(u.Bytes), text.Count(u.Objects, "object"))
	if u.Foreign > 0 {
		fmt.Fprintf(e.Stdout, "%10s  %s not made by cachebro\n", "", text.Count(u.Foreign, "object"))
	}
}

// remoteFsck checks a bucket. If it finds problems, the exit status is 1.
func remoteFsck(ctx context.Context, e *cli.Env, b *remote.Bucket, l bucketFlags) error {
	r, err := b.Fsck(ctx, l.whole)
	if err != nil {
		return err
	}
	if l.json {
		err = e.PrintJSON(r)
	} else {
		w := e.Stdout
		for _, p := range r.Problems {
			fmt.Fprintln(w, cli.OneLine(p))
		}
		fmt.Fprintf(w, "%s of %s: %s\n", text.Count(r.Segments, "segment"), text.Count(r.Machines, "machine"), text.Count(len(r.Problems), "problem"))
		if r.Dropped > 0 {
			fmt.Fprintf(w, "%s whose contents remote prune has dropped\n", text.Count(r.Dropped, "segment"))
		}
		if r.Locked > 0 {
			fmt.Fprintf(w, "%s whose history could not be read, because the key is missing here\n", text.Count(r.Locked, "machine"))
		}
		if r.Unread > 0 {
			fmt.Fprintf(w, "%s (%s) of machines whose history could not be read\n", text.Count(r.Unread, "object"), text.Bytes(r.UnreadBytes))
		}
		if r.Unnamed > 0 {
			fmt.Fprintf(w, "%s that belong to no history (%s), from senders that were killed or are still sending; remote prune deletes them\n", text.Count(r.Unnamed, "object"), text.Bytes(r.UnnamedBytes))
		}
	}
	if err == nil && len(r.Problems) > 0 {
		return cli.ExitStatus(1)
	}
	return err
}

func remotePrune(ctx context.Context, e *cli.Env, b *remote.Bucket, l bucketFlags) error {
	o := remote.PruneOptions{Dry: l.dry}
	for _, age := range []struct {
		name, value string
		to          *time.Duration
	}{{"older", l.older, &o.Age}, {"grace", l.grace, &o.Grace}} {
		if age.value == "" && age.name == "grace" {
			continue
		}
		d, ok := wire.ParseAge(age.value)
		if !ok || d <= 0 {
			return e.Usagef("remote prune: --%s %s: want an age (12h, 30d, 12w)", age.name, cli.Quote(age.value))
		}
		*age.to = d
	}
	r, err := b.Prune(ctx, o)
	if err != nil {
		return err
	}
	if l.json {
		err = e.PrintJSON(r)
	} else {
		printPruned(e.Stdout, r, l.dry)
	}
	if err == nil && len(r.Kept) > 0 {
		return cli.ExitStatus(1)
	}
	return err
}

func printPruned(w io.Writer, r remote.Pruned, dry bool) {
	would := ""
	if dry {
		would = "would be "
	}
	fmt.Fprintf(w, "%sdeleted: %s, %s\n", would, text.Count(r.Deleted, "object"), text.Bytes(r.DeletedBytes))
	fmt.Fprintf(w, "%smarked:  contents of %s, %s\n", would, text.Count(r.Marked, "segment"), text.Bytes(r.MarkedBytes))
	if r.Waiting > 0 {
		fmt.Fprintf(w, "%s marked earlier, but not yet long enough ago to be deleted\n", text.Count(r.Waiting, "segment"))
	}
	for _, id := range r.Busy {
		fmt.Fprintf(w, "%s has just sent something, and is skipped until the next run\n", id)
	}
	for _, why := range r.Kept {
		fmt.Fprintf(w, "nothing was dropped from %s\n", cli.OneLine(why))
	}
}
