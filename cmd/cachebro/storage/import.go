package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/daemon"
	"cachebro/cmd/cachebro/mounting"
	"cachebro/fusefs/mounts"
	"cachebro/store"
	"cachebro/store/leaf/text"
	"cachebro/store/portable"

	"github.com/spf13/cobra"
)

// ImportCommand returns the command cachebro store import.
func ImportCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "import FILE", Short: "import an exported history into a project that has none",
		Long: `The project must not be mounted. Everything in FILE (- for standard input) is verified
first; if that fails, nothing changes. Two histories cannot be merged, so a history that
the project has already must be moved away first. The next mount continues the imported
history.`,
		Example: `  cachebro store import ~/backup/app.history
  cachebro store import --check ~/backup/app.history`,
		Args: e.Args(1, 1),
	}

	fs := cmd.Flags()
	check := fs.Bool("check", false, "only read and verify FILE")
	asJSON := jsonFlag(fs)
	return cli.Does(cmd, func(ctx context.Context, args []string) error {
		from := io.Reader(e.Stdin)
		if args[0] != "-" {
			path, err := e.Abs(args[0])
			if err != nil {
				return err
			}
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			from = f
		}
		var c portable.Totals
		var root string
		var err error
		if *check {
			c, err = portable.Check(ctx, from)
		} else {
			root, c, err = importHere(ctx, e, from)
		}
		if err != nil {
			if hint := store.Hint(err); hint != "" {
				return cli.Hintf(hint, "%s: %v", cli.Quote(args[0]), err)
			}
			return fmt.Errorf("%s: %w", cli.Quote(args[0]), err)
		}
		im := imported{root, c.Root, time.Unix(0, c.Made), c.Program, c.Versions, c.Files, c.Contents, c.Bytes, c.Records}
		switch {
		case *asJSON:
			return e.PrintJSON(im)
		case *check:
			fmt.Fprintf(e.Stdout, "%s is intact: %s with %s (%s) of %s, written %s\n", cli.Quote(args[0]), text.Count(im.Versions, "version"), text.Count(im.Contents, "content"), text.Bytes(im.Bytes), cli.Quote(im.From), im.Made.Format("2006-01-02 15:04"))
			return nil
		}
		fmt.Fprintf(e.Stdout, "%s has %s of %s now, from %s, written %s\n", cli.Quote(im.Root), text.Count(im.Versions, "version"), text.Count(im.Files, "file"), cli.Quote(im.From), im.Made.Format("2006-01-02 15:04"))
		return nil
	})
}

type imported struct {
	Root     string    `json:"root,omitempty"`
	From     string    `json:"from"` // root of the project that was exported
	Made     time.Time `json:"made"`
	Program  string    `json:"program"` // version that wrote the file
	Versions uint64    `json:"versions"`
	Files    uint64    `json:"files,omitempty"`
	Contents uint64    `json:"contents"`
	Bytes    int64     `json:"bytes"`
	Records  uint64    `json:"records"`
}

// importHere imports a stream as the history of the project in the working directory.
func importHere(ctx context.Context, e *cli.Env, from io.Reader) (root string, c portable.Totals, err error) {
	root, err = mounting.ExistingDir(e, ".")
	if err != nil {
		return root, c, err
	}
	if top, ok := mounts.Top(root); ok {
		root = top
	}
	err = giveHistory(ctx, e, root, func(state string, limits store.Options) error {
		c, err = daemon.ImportHistory(ctx, state, root, cli.Version, from, limits)
		return err
	})
	return root, c, err
}

// giveHistory calls give with the state directory of the project at root, which must not be mounted
// and must not have a history.
func giveHistory(ctx context.Context, e *cli.Env, root string, give func(state string, limits store.Options) error) error {
	overlays, err := mounts.Overlays()
	if err != nil {
		return err
	}
	for _, m := range overlays {
		if m.Source == root || m.Point == root {
			return cli.Hintf("cd / && cachebro umount "+cli.Arg(m.Point), "%s is mounted", cli.Quote(root))
		}
	}
	set, err := storeLimits(e)
	if err != nil {
		return err
	}
	e.EndDaemon(ctx, root)
	state, err := e.Paths().MakeState(root)
	if err != nil {
		return err
	}
	err = give(state, set)
	if errors.Is(err, daemon.ErrHistory) {
		return cli.Hintf("mv "+cli.Arg(state)+" "+cli.Arg(state+".before")+" moves it away", "%s has a history already, and two histories cannot be merged", cli.Quote(root))
	}
	return err
}
