package storage

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/fusefs/ignore"
	"cachebro/search/embed"
	"cachebro/store/content"
	"cachebro/store/daemon"
	"cachebro/store/wire"
)

// DaemonCommand is cachebro daemon.
func DaemonCommand() cli.Command {
	return cli.Command{
		Name: "daemon", Short: "owns a project's store (started when it is needed)", OwnSignals: true,
		Run: func(ctx context.Context, e *cli.Env) error {
			fs := e.Flags()
			root := fs.String("root", "", "the project's root")
			mirror := fs.String("mirror", "", "the directory of a copy of another machine's history")
			if _, err := e.Parse(fs, 0, 0); err != nil {
				return err
			}
			if !filepath.IsAbs(*root) {
				return e.Usagef("daemon: --root must be an absolute path")
			}
			if *mirror != "" {
				e = e.WithState(*mirror)
			}
			limits, err := storeLimits(e)
			if err != nil {
				return err
			}
			kept, err := resultSettings(e)
			if err != nil {
				return err
			}
			limits.Siblings = func() []content.Sibling { return siblings(e, *root) }
			o := daemon.Options{
				Root: *root, Paths: e.Paths(), Version: cli.Version, Ignore: ignore.Options{ExcludesFile: e.ExcludesFile()}, Store: limits, Results: kept, Mirror: *mirror != "",
				Tidy: func(ctx context.Context, state string) error { return tidyOther(ctx, e, state) },
			}
			if d, err := time.ParseDuration(e.Getenv("CACHEBRO_IDLE")); err == nil && d > 0 {
				o.IdleExit = d
			}
			// A program that turns texts into vectors, for search by meaning.
			if c := embed.New(e.Getenv("CACHEBRO_EMBEDDER")); c != nil {
				defer c.Close()
				o.Embedder = c
			}
			err = daemon.Run(ctx, o)
			if errors.Is(err, wire.ErrLocked) {
				return cli.Hintf("cachebro status "+cli.Arg(*root), "%w", err)
			}
			return err
		},
	}
}
