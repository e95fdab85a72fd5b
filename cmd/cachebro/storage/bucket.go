package storage

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/leaf/text"
	"cachebro/store/remote"
	"cachebro/store/wire/when"
)

// looking is how somebody looks after a bucket.
type looking struct {
	older, grace     string
	whole, dry, json bool
}

// remoteDu is cachebro remote du.
func remoteDu(ctx context.Context, e *cli.Env, b *remote.Bucket, l looking) error {
	u, err := b.Usage(ctx)
	if err != nil {
		return err
	}
	if l.json {
		return e.PrintJSON(u)
	}
	for _, m := range u.Machines {
		last := "nothing was sent yet"
		switch {
		case m.Unknown:
			last = "in no list of machines"
		case !m.Last.IsZero():
			last = "last " + cli.Stamp(m.Last, e.Now())
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

// remoteFsck is cachebro remote fsck.
func remoteFsck(ctx context.Context, e *cli.Env, b *remote.Bucket, l looking) error {
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
			fmt.Fprintf(w, "%s without contents, by remote prune\n", text.Count(r.Dropped, "segment"))
		}
		if r.Locked > 0 {
			fmt.Fprintf(w, "%s without a key here: what is within was not read\n", text.Count(r.Locked, "machine"))
		}
		if r.Unnamed > 0 {
			fmt.Fprintf(w, "%s in no history (%s), of senders that were killed or are at work; remote prune takes them away\n", text.Count(r.Unnamed, "object"), text.Bytes(r.UnnamedBytes))
		}
	}
	if err == nil && len(r.Problems) > 0 {
		return cli.ExitStatus(1)
	}
	return err
}

// remotePrune is cachebro remote prune.
func remotePrune(ctx context.Context, e *cli.Env, b *remote.Bucket, l looking) error {
	o := remote.PruneOptions{Dry: l.dry}
	for _, age := range []struct {
		name, value string
		to          *time.Duration
	}{{"older", l.older, &o.Age}, {"grace", l.grace, &o.Grace}} {
		if age.value == "" && age.name == "grace" {
			continue
		}
		d, ok := when.Age(age.value)
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
		return e.PrintJSON(r)
	}
	w, would := e.Stdout, ""
	if l.dry {
		would = "would be "
	}
	fmt.Fprintf(w, "%sdeleted: %s, %s\n", would, text.Count(r.Deleted, "object"), text.Bytes(r.DeletedBytes))
	fmt.Fprintf(w, "%smarked:  contents of %s, %s\n", would, text.Count(r.Marked, "segment"), text.Bytes(r.MarkedBytes))
	if r.Waiting > 0 {
		fmt.Fprintf(w, "%s marked before, not long enough ago\n", text.Count(r.Waiting, "segment"))
	}
	for _, id := range r.Busy {
		fmt.Fprintf(w, "%s has just sent something: next time\n", id)
	}
	for _, why := range r.Kept {
		fmt.Fprintf(w, "nothing dropped of %s\n", cli.OneLine(why))
	}
	return nil
}
