package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"cachebro/store/wire"
	"cachebro/store/wire/visible"

	"golang.org/x/term"
)

func reindexCommand() command {
	return command{
		name: "reindex", group: groupStore, args: "[DIR]", short: "bring the search index up to date, or make it anew with --full",
		long: "The index follows by itself; this is for when nothing was mounted or it is doubted.\nIt returns when every file is in, or says what is missing; what it has not done\nwhen it is interrupted is done in the background.\n\nExamples:\n  cachebro reindex\n  cachebro reindex --full",
		run: func(ctx context.Context, e *env) error {
			fs := e.flags()
			full := fs.Bool("full", false, "throw the index away first")
			asJSON := fs.Bool("json", false, "print JSON")
			args, err := e.parse(fs, 0, 1)
			if err != nil {
				return err
			}
			r := wire.IndexRequest{Do: "reindex"}
			if *full {
				r.Do = "full"
			}
			return e.index(ctx, first(args, "."), r, *asJSON)
		},
	}
}

func indexCommand() command {
	return command{
		name: "index", group: groupStore, args: "stats|list|forget|reconcile [PATH]", short: "what the search index holds",
		long: `  stats      files, chunks, words, size
  list       the files, with the version each was indexed at
  forget     index the files at or below a path anew
  reconcile  compare every file with the version log and mend what differs

Examples:
  cachebro index stats
  cachebro index list src
  cachebro index forget src/generated`,
		run: func(ctx context.Context, e *env) error {
			fs := e.flags()
			limit := fs.IntP("limit", "n", 0, "list at most this many files")
			asJSON := fs.Bool("json", false, "print JSON")
			args, err := e.parse(fs, 1, 2)
			if err != nil {
				return err
			}
			switch args[0] {
			case "stats", "list", "reconcile":
			case "forget":
				if len(args) < 2 {
					return e.usagef("index: forget needs a path")
				}
			default:
				return e.usagef("index: unknown request %s: want stats, list, forget or reconcile", quote(args[0]))
			}
			return e.index(ctx, first(args[1:], "."), wire.IndexRequest{Do: args[0], Limit: *limit}, *asJSON)
		},
	}
}

func (e *env) index(ctx context.Context, where string, r wire.IndexRequest, asJSON bool) error {
	t, err := e.locateOrTop(where)
	if err != nil {
		return err
	}
	c, err := e.connect(ctx, t.root)
	if err != nil {
		return err
	}
	defer c.Close()
	r.Path = t.rel
	done := e.watchIndex(ctx, c)
	a, err := wire.Call[wire.StoreAnswer](ctx, c, wire.MIndex, r)
	done()
	if err != nil {
		return err
	}
	if asJSON {
		return e.printJSON(map[string]any{"text": a.Text, "facts": json.RawMessage(a.Facts)})
	}
	if a.Text != "" {
		_, err = fmt.Fprintln(e.stdout, a.Text)
	}
	return err
}

// watchEvery is the pause between two lines of progress, and before the first.
const watchEvery = 300 * time.Millisecond

// watchIndex prints how far the index is while another request works on it.
func (e *env) watchIndex(ctx context.Context, c *wire.Client) (done func()) {
	return e.watch(ctx, func(ctx context.Context) string {
		a, err := wire.Call[wire.StoreAnswer](ctx, c, wire.MIndex, wire.IndexRequest{Do: "progress"})
		var facts wire.IndexFacts
		if err != nil || json.Unmarshal(a.Facts, &facts) != nil || facts.Progress == nil {
			return ""
		}
		return progressLine(*facts.Progress)
	})
}

// watchTree prints how far a look at the whole tree is, which a question without a
// mount begins with.
func (e *env) watchTree(ctx context.Context, c *wire.Client) (done func()) {
	return e.watch(ctx, func(ctx context.Context) string {
		st, err := wire.Call[wire.Status](ctx, c, wire.MStatus, wire.Empty{})
		if err != nil || !st.Baseline.Running {
			return ""
		}
		return fmt.Sprintf("looking for changes: %d files", st.Baseline.Files)
	})
}

// watch prints a line of progress on a terminal, over the one before, until done is
// called.
func (e *env) watch(ctx context.Context, line func(context.Context) string) (done func()) {
	f, ok := visible.Raw(e.stderr).(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		shown := false
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				if shown {
					fmt.Fprint(f, "\r\x1b[K")
				}
				return
			case <-tick.C:
			}
			if text := line(ctx); text != "" {
				fmt.Fprint(f, "\r\x1b[K"+text)
				shown = true
			}
		}
	})
	return func() {
		cancel()
		watching.Wait()
	}
}

// progressLine is empty where there is nothing to tell.
func progressLine(p wire.IndexProgress) string {
	switch {
	case p.Looking:
		return fmt.Sprintf("looking for changes: %d files", p.Looked)
	case p.Of > 0:
		return fmt.Sprintf("indexing: %d of %d files", p.Indexed, p.Of)
	}
	return ""
}
