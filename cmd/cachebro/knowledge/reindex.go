package knowledge

import (
	"context"
	"encoding/json"
	"fmt"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/leaf/text"
	"cachebro/store/wire"
)

// ReindexCommand is cachebro reindex.
func ReindexCommand() cli.Command {
	return cli.Command{
		Name: "reindex", Group: cli.GroupStore, Args: "[DIR]", Short: "bring the search index up to date, or rebuild it with --full",
		Long: "The index follows by itself; this is for when nothing was mounted or it is doubted.\nIt returns when every file is in, or says what is missing; what it has not done\nwhen it is interrupted is done in the background.\n\nExamples:\n  cachebro reindex\n  cachebro reindex --full",
		Run: func(ctx context.Context, e *cli.Env) error {
			fs := e.Flags()
			full := fs.Bool("full", false, "delete the index first")
			asJSON := fs.Bool("json", false, "print JSON")
			args, err := e.Parse(fs, 0, 1)
			if err != nil {
				return err
			}
			r := wire.IndexRequest{Do: "reindex"}
			if *full {
				r.Do = "full"
			}
			return index(ctx, e, cli.First(args, "."), r, *asJSON)
		},
	}
}

// IndexCommand is cachebro index.
func IndexCommand() cli.Command {
	return cli.Command{
		Name: "index", Group: cli.GroupStore, Args: "stats|list|forget|reconcile [PATH]", Short: "what the search index holds",
		Long: `  stats      files, chunks, words, size
  list       the files, with the version each was indexed at
  forget     index the files at or below a path anew
  reconcile  compare every file with the version log and mend what differs

Examples:
  cachebro index stats
  cachebro index list src
  cachebro index forget src/generated`,
		Run: func(ctx context.Context, e *cli.Env) error {
			fs := e.Flags()
			limit := fs.IntP("limit", "n", 0, "list at most this many files")
			asJSON := fs.Bool("json", false, "print JSON")
			args, err := e.Parse(fs, 1, 2)
			if err != nil {
				return err
			}
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
		},
	}
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

// watchIndex prints how far the index is while another request works on it.
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

// progressLine is empty where there is nothing to tell.
func progressLine(p wire.IndexProgress) string {
	switch {
	case p.Looking:
		return fmt.Sprintf("looking for changes: %s", text.Count(p.Looked, "file"))
	case p.Of > 0:
		return fmt.Sprintf("indexing: %d of %s", p.Indexed, text.Count(p.Of, "file"))
	}
	return ""
}
