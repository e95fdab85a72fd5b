package storage

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/daemon"
	"cachebro/search"
	"cachebro/store/content"
	"cachebro/store/leaf/ignore"
	"cachebro/store/wire"

	"github.com/spf13/cobra"
)

// spareProcs is added to GOMAXPROCS. When the index uses all of Go's processors, a request waits 10
// ms or more for one of them. With spare processors the request gets a thread at once, and the
// kernel prefers this thread to the threads of the index.
const spareProcs = 2

// DaemonCommand returns the command cachebro daemon.
func DaemonCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "daemon", Short: "serves a project's store (started when needed)",
		Annotations: cli.OwnSignals,
		Hidden:      true,
		Args:        e.Args(0, 0),
	}

	fs := cmd.Flags()
	root := fs.String("root", "", "the project's root")
	mirror := fs.String("mirror", "", "the directory of a copy of another machine's history")
	return cli.Does(cmd, func(ctx context.Context, _ []string) error {
		if !filepath.IsAbs(*root) {
			return e.Usagef("daemon: --root must be an absolute path")
		}
		if *mirror != "" {
			e = e.WithState(*mirror)
		}
		set, err := storeLimits(e)
		if err != nil {
			return err
		}
		kept, err := resultSettings(e)
		if err != nil {
			return err
		}
		set.Siblings = func() []content.Sibling { return siblings(e, *root) }
		workers := runtime.GOMAXPROCS(0)
		runtime.GOMAXPROCS(workers + spareProcs)
		o := daemon.Options{
			Workers: workers,
			Root:    *root, Paths: e.Paths(), Version: cli.Version, Ignore: ignore.Options{ExcludesFile: e.ExcludesFile()}, Store: set, Results: kept, Mirror: *mirror != "",
			Tidy: func(ctx context.Context, state string) error { return tidyOther(ctx, e, state) },
		}
		if d, err := time.ParseDuration(e.Getenv("CACHEBRO_IDLE")); err == nil && d > 0 {
			o.IdleExit = d
		}
		// The command turns texts into vectors, for search by meaning.
		if c := search.NewEmbedCommand(e.Getenv("CACHEBRO_EMBEDDER")); c != nil {
			defer c.Close()
			o.Embedder = c
		}
		err = daemon.Run(ctx, o)
		if errors.Is(err, wire.ErrLocked) {
			return cli.Hintf("cachebro status --dir "+cli.Arg(*root), "%w", err)
		}
		return err
	})
}
