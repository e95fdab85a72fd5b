package knowledge

import (
	"context"
	"encoding/json"
	"fmt"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/leaf/text"
	"cachebro/store/wire"

	"github.com/spf13/cobra"
)

// ReindexCommand returns the command cachebro store reindex.
func ReindexCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "reindex", Short: "bring the search index up to date, or rebuild it with --full",
		Long: "The index is updated by itself. Use this if the project was not mounted, or if you doubt\nthe index. It returns when every file is indexed, or reports what is missing. If it is\ninterrupted, the rest is indexed in the background.",
		Example: `  cachebro store reindex
  cachebro store reindex --full`,
		Args: e.Args(0, 0),
	}

	fs := cmd.Flags()
	full := fs.Bool("full", false, "delete the index first")
	asJSON := fs.Bool("json", false, "print JSON")
	return cli.Does(cmd, func(ctx context.Context, _ []string) error {
		r := wire.IndexRequest{Do: "reindex"}
		if *full {
			r.Do = "full"
		}
		return index(ctx, e, ".", r, *asJSON)
	})
}

// IndexCommand returns the command cachebro store index.
func IndexCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "index stats|list|forget|reconcile [PATH]", Short: "show or repair the search index",
		Long: `  stats      files, chunks, words, size
  list       the indexed files, each with the version that was indexed
  forget     index a file, or the files in a directory, anew
  reconcile  compare every file with the version log and correct the differences`,
		Example: `  cachebro store index stats
  cachebro store index list src
  cachebro store index forget src/generated`,
		Args: e.Args(1, 2),
	}

	fs := cmd.Flags()
	limit := fs.IntP("limit", "n", 0, "list at most this many files")
	asJSON := fs.Bool("json", false, "print JSON")
	return cli.Does(cmd, func(ctx context.Context, args []string) error {
		switch args[0] {
		case "stats", "list", "reconcile":
		case "forget":
			if len(args) < 2 {
				return e.Usagef("index: forget needs a path")
			}
		default:
			return e.Usagef("index: unknown request %s: want stats, list, forget or reconcile", cli.Quote(args[0]))
		}
		return index(ctx, e, cli.First(args[1:], "."), wire.IndexRequest{Do: args[0], Limit: *limit}, *asJSON)
	})
}

func index(ctx context.Context, e *cli.Env, where string, r wire.IndexRequest, asJSON bool) error {
	t, err := e.LocateOrTop(where)
	if err != nil {
		return err
	}
	c, err := e.Connect(ctx, t.Root)
	if err != nil {
		return err
	}
	defer c.Close()
	r.Path = t.Rel
	done := watchIndex(ctx, e, c)
	a, err := wire.Call[wire.StoreAnswer](ctx, c, wire.MIndex, r)
	done()
	if err != nil {
		return err
	}
	if asJSON {
		return e.PrintJSON(map[string]any{"text": a.Text, "facts": json.RawMessage(a.Facts)})
	}
	if a.Text != "" {
		_, err = fmt.Fprintln(e.Stdout, a.Text)
	}
	return err
}

// watchIndex prints the progress of the index while another request works on it.
func watchIndex(ctx context.Context, e *cli.Env, c *wire.Client) (done func()) {
	return e.Watch(ctx, func(ctx context.Context) string {
		a, err := wire.Call[wire.StoreAnswer](ctx, c, wire.MIndex, wire.IndexRequest{Do: "progress"})
		var facts wire.IndexFacts
		if err != nil || json.Unmarshal(a.Facts, &facts) != nil || facts.Progress == nil {
			return ""
		}
		return progressLine(*facts.Progress)
	})
}

// progressLine describes the progress of the index, or "" if there is none.
func progressLine(p wire.IndexProgress) string {
	switch {
	case p.Looking:
		return fmt.Sprintf("looking for changes: %s", text.Count(p.Looked, "file"))
	case p.Of > 0:
		return fmt.Sprintf("indexing: %d of %s", p.Indexed, text.Count(p.Of, "file"))
	}
	return ""
}
