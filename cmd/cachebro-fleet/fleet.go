package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/fleet"
	"cachebro/store/remote"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// open connects to the database, with at most conns connections.
func open(ctx context.Context, e *cli.Env, address string, conns int) (*fleet.DB, error) {
	if !strings.HasPrefix(address, "postgres://") && !strings.HasPrefix(address, "postgresql://") {
		return nil, e.Usagef("%s is not postgres://HOST/DATABASE", cli.Quote(address))
	}
	return fleet.Open(ctx, address, conns)
}

// bucket parses the address of a project in a bucket and opens the bucket.
func bucket(e *cli.Env, address, identity string) (p remote.Place, b *remote.Bucket, err error) {
	p, err = remote.ParsePlace(address, e.Getenv)
	if err != nil {
		return p, nil, err
	}
	b, err = remote.Dial(p)
	if err == nil && identity != "" {
		err = b.Unlock(identity)
	}
	return p, b, err
}

// asking holds the flags that select versions.
type asking struct{ project, machine, path, session, since, until *string }

func askingFlags(fs *pflag.FlagSet) asking {
	return asking{
		project: fs.String("project", "", "select this project: its `ADDRESS` s3://BUCKET/PREFIX, or the end of the address"),
		machine: fs.String("machine", "all", "select this machine: a host's `NAME`, or an id"),
		path:    fs.String("path", "", "select this file, or everything in this directory"),
		session: fs.String("session", "", "select the session whose `ID` begins with this"),
		since:   fs.String("since", "", "select nothing before this `TIME` (12:40, 2026-05-01 12:40) or age (10m, 2h, 3d)"),
		until:   fs.String("until", "", "select nothing after this `TIME` or age"),
	}
}

func (a asking) query(e *cli.Env) (q fleet.Query, err error) {
	q = fleet.Query{Project: strings.Trim(*a.project, "/"), Machine: *a.machine, Path: *a.path, Session: *a.session}
	if q.Machine == "all" {
		q.Machine = ""
	}
	q.Since, err = e.TimeFlag("since", *a.since, ".")
	if err == nil {
		q.Until, err = e.TimeFlag("until", *a.until, ".")
	}
	return q, err
}

func explained(err error) error {
	if errors.Is(err, fleet.ErrUnknown) {
		return cli.Hintf("the database lists them: select p.place, m.name, m.machine from machines m join projects p on p.id = m.project", "%w", err)
	}
	return err
}

func logCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "log postgres://HOST/DATABASE", Short: "show what was done, newest first",
		Example: `  cachebro-fleet log postgres://db/fleet --machine all --since 1h
  cachebro-fleet log postgres://db/fleet --project app --path src/main.go
  cachebro-fleet log postgres://db/fleet --session 3f2a --json`,
		Args: e.Args(1, 1),
	}

	fs := cmd.Flags()
	asks := askingFlags(fs)
	limit := fs.IntP("limit", "n", 50, "show at most this number of versions; 0 shows all")
	asJSON := fs.Bool("json", false, "print JSON, one version per line")
	return cli.Does(cmd, func(ctx context.Context, args []string) error {
		q, err := asks.query(e)
		if err != nil {
			return err
		}
		if *limit < 0 {
			return e.Usagef("log: --limit must be 0 or more")
		}
		d, err := open(ctx, e, args[0], 1)
		if err != nil {
			return err
		}
		defer d.Close()
		now := e.Now()
		more := false
		q.Limit = *limit
		if q.Limit > 0 {
			q.Limit++ // ask for one more version, to see whether the list is complete
		}
		shown := 0
		err = d.Log(ctx, q, func(v fleet.Version) error {
			more = *limit > 0 && shown == *limit
			if more {
				return nil
			}
			shown++
			if *asJSON {
				return e.PrintJSON(v)
			}
			_, err := fmt.Fprintln(e.Stdout, line(e, v, now))
			return err
		})
		if err == nil && more {
			fmt.Fprintf(e.Stderr, "only the newest %d are shown; --limit 0 shows all\n", *limit)
		}
		return explained(err)
	})
}

func line(e *cli.Env, v fleet.Version, now time.Time) string {
	p := e.Paint()
	what := cli.Quote(v.Path)
	if v.Other != "" {
		arrow := " ← "
		if v.Op == "moved" || v.Op == "symlink" {
			arrow = " → "
		}
		what += arrow + cli.Quote(v.Other)
	}
	return fmt.Sprintf("%s  %s  %s  %-8s %s  %s", cli.Stamp(v.Time, now), p.Cyan(cli.OneLine(v.Machine)), p.Dim(strconv.FormatInt(v.Seq, 10)), v.Op, what, p.Dim(whose(v)))
}

// whose describes who made a version: the session, the agent and its tool, and the action or the
// process.
func whose(v fleet.Version) string {
	did := cmp.Or(v.Action, v.Comm)
	parts := []string{}
	for _, s := range []string{v.Session[:min(13, len(v.Session))], v.Agent, v.Tool, did} {
		if s != "" {
			parts = append(parts, cli.OneLine(s))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "[" + strings.Join(parts, " ") + "]"
}
