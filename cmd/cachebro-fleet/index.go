package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/machines"
	"cachebro/store/fleet"
	"cachebro/store/leaf/loop"
	"cachebro/store/leaf/text"
	"cachebro/store/remote"

	"github.com/spf13/cobra"
)

func indexCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "index postgres://HOST/DATABASE", Short: "import the histories that machines have sent to buckets",
		Long: `Adds to the database what the machines of each project have sent since the last time,
and creates missing tables (doc/fleet.md describes them). Any number of indexers may run
at once, on any machines, and may be killed and restarted.

With --every it keeps running, and logs lines of JSON to standard error. With --listen
it also answers GET /metrics (Prometheus) and /healthz.`,
		Example: `  cachebro-fleet index postgres://db/fleet --bucket s3://histories/app --bucket s3://histories/lib
  cachebro-fleet index postgres://db/fleet --bucket s3://histories/app --every 10s --listen :9480`,
		Args: e.Args(1, 1),
	}

	fs := cmd.Flags()
	buckets := fs.StringArray("bucket", nil, "import a project from `s3://BUCKET/PREFIX`, as given to cachebro remote add; may be repeated")
	workers := fs.Int("workers", 4, "read this number of machines at once")
	every := fs.Duration("every", 0, "keep running, and look again after each interval of this length")
	listen := fs.String("listen", "", "serve /metrics and /healthz at this `ADDRESS`, for example :9480; needs --every")
	identity := machines.IdentityFlag(e, fs)
	return cli.Does(cmd, func(ctx context.Context, args []string) error {
		switch {
		case len(*buckets) == 0:
			return e.Usagef("index: --bucket s3://BUCKET/PREFIX is missing")
		case *workers < 1 || *workers > 1000:
			return e.Usagef("index: --workers must be 1 to 1000")
		case fs.Changed("every") && *every < time.Second:
			return e.Usagef("index: --every must be a second or more")
		case *listen != "" && *every == 0:
			return e.Usagef("index: --listen needs --every")
		}
		d, err := open(ctx, e, args[0], *workers)
		if err != nil {
			return err
		}
		defer d.Close()
		x := indexer{e: e, d: d, buckets: *buckets, identity: *identity, workers: *workers}
		if *every == 0 {
			return x.once(ctx)
		}
		return x.importRepeatedly(ctx, *every, *listen)
	})
}

// indexer imports projects repeatedly.
type indexer struct {
	e        *cli.Env
	d        *fleet.DB
	buckets  []string
	identity string
	workers  int
}

// once imports each project once and reports the result.
func (x *indexer) once(ctx context.Context) error {
	var problems []error
	for _, address := range x.buckets {
		p, f, err := x.feed(ctx, address)
		if p.Bucket == "" {
			return err
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", p.Short(), err))
		}
		if err != nil && f.Machines == 0 { // the list of machines could not be read
			continue
		}
		line := fmt.Sprintf("%s: %s, %s from %s", p.Short(), text.Count(f.Machines, "machine"), text.Count(int(f.Versions), "new version"), text.Count(f.Segments, "segment"))
		if f.Busy > 0 {
			line += fmt.Sprintf("; %d being imported by others", f.Busy)
		}
		fmt.Fprintln(x.e.Stdout, line)
		if f.Unlisted != nil {
			fmt.Fprintf(x.e.Stderr, "%s: machines that are missing from the bucket's list of machines are not imported: %s\n", p.Short(), cli.OneLine(f.Unlisted.Error()))
		}
	}
	return machines.Hinted(errors.Join(problems...))
}

// feed imports one project. If the address is invalid, the returned place is zero.
func (x *indexer) feed(ctx context.Context, address string) (remote.Place, fleet.FeedResult, error) {
	p, b, err := bucket(x.e, address, x.identity)
	if err != nil {
		return remote.Place{}, fleet.FeedResult{}, err
	}
	f, err := x.d.Feed(ctx, p, b, x.workers)
	return p, f, err
}

// importRepeatedly imports all projects in rounds until ctx ends. It logs a problem once when the
// problem begins, and once when it is over.
func (x *indexer) importRepeatedly(ctx context.Context, every time.Duration, listen string) error {
	log := slog.New(slog.NewJSONHandler(x.e.Stderr, nil))
	health := newHealth(every)
	if listen != "" {
		l, err := net.Listen("tcp", listen)
		if err != nil {
			return err
		}
		log.Info("listening", "address", l.Addr().String())
		stop := health.serve(l, x.d.Ping)
		defer stop()
	}
	reported := map[string]string{}
	for {
		for _, address := range x.buckets {
			began := time.Now()
			p, f, err := x.feed(ctx, address)
			if ctx.Err() != nil {
				log.Info("ending on request")
				return nil
			}
			if p.Bucket == "" {
				return err
			}
			project := p.Short()
			health.round(project, f, err, time.Since(began))
			if f.Segments > 0 {
				log.Info("imported", "project", project, "machines", f.Machines, "segments", f.Segments, "versions", f.Versions, "busy", f.Busy, "took", time.Since(began).Round(time.Millisecond).String())
			}
			problem := errors.Join(err, f.Unlisted)
			text := ""
			if problem != nil {
				text = problem.Error()
			}
			if text != reported[project] {
				if text == "" {
					log.Info("the problem is over", "project", project)
				} else {
					log.Warn("problem", "project", project, "machines", f.Problems, "err", text)
				}
				reported[project] = text
			}
		}
		if !loop.Pause(ctx, every) {
			log.Info("ending on request")
			return nil
		}
	}
}
