// Command search measures the time and freshness of searches, compared to rg and git grep on the
// same files. scripts/bench/search.sh prepares the trees and runs this command. Each table is made
// by one function of this package.
//
// Usage: search -cachebro BIN -native DIR -mounted DIR -work DIR [-queries FILE] [-every N] [-most FILES]
//
// The directories native and mounted contain the same files, each in a git work tree. mounted must
// not be mounted yet. Times are wall times. Where processor time is printed, it is the sum of user
// and system time.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cachebro/store/wire"
)

// bench holds the settings of one run.
type bench struct {
	binary, native, mounted, work, queries string
	every, most                            int
	fresher                                bool
}

func main() {
	var b bench
	flag.StringVar(&b.binary, "cachebro", "", "the cachebro binary")
	flag.StringVar(&b.native, "native", "", "the tree without a mount")
	flag.StringVar(&b.mounted, "mounted", "", "the same tree, to be mounted")
	flag.StringVar(&b.work, "work", "", "an empty directory for generated trees")
	flag.StringVar(&b.queries, "queries", "testdata/search/queries.json", "the queries")
	flag.IntVar(&b.every, "every", 1, "ask every nth query")
	flag.IntVar(&b.most, "most", 10_000, "the number of files of the largest generated tree")
	flag.BoolVar(&b.fresher, "fresh", false, "measure only how soon a search finds a saved change")
	flag.Parse()
	if err := b.run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "search bench:", err)
		os.Exit(1)
	}
}

func (b *bench) run(ctx context.Context) error {
	if err := b.cachebro("mount", b.mounted); err != nil {
		return err
	}
	d, err := b.dial(ctx, b.mounted)
	if err != nil {
		return err
	}
	defer d.Close()
	if b.fresher {
		return errors.Join(b.firstIndex(ctx, d), b.fresh(ctx, d), b.cachebro("umount", b.mounted))
	}
	for _, step := range []func(context.Context, *daemon) error{b.firstIndex, b.askAll, b.prompts, b.past, b.fresh} {
		if err := step(ctx, d); err != nil {
			return err
		}
	}
	if err := b.cachebro("umount", b.mounted); err != nil {
		return err
	}
	if err := b.reindex(ctx); err != nil {
		return err
	}
	return b.growth(ctx)
}

func (b *bench) cachebro(args ...string) error {
	out, err := exec.Command(b.binary, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("cachebro %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// daemon is a connection to a project's daemon whose index is ready.
type daemon struct {
	*wire.Client
	pid int
}

func (b *bench) dial(ctx context.Context, root string) (*daemon, error) {
	mounted := root == b.mounted
	root, err := filepath.EvalSymlinks(root)
	if err != nil {
		return nil, err
	}
	p := wire.Paths{RuntimeDir: os.Getenv("XDG_RUNTIME_DIR"), StateHome: os.Getenv("XDG_STATE_HOME"), Home: os.Getenv("HOME")}
	raw, err := exec.Command(b.binary, "version", "--json").Output()
	if err != nil {
		return nil, fmt.Errorf("cachebro version: %w", err)
	}
	h := wire.Hello{Client: "bench", Root: root}
	if err := json.Unmarshal(raw, &h); err != nil {
		return nil, err
	}
	c, err := wire.DialOrStart(ctx, p, h, wire.Timeouts{}, wire.Start{Self: b.binary, Within: 20 * time.Second})
	if err != nil {
		return nil, err
	}
	d := &daemon{Client: c, pid: c.Hello().PID}
	if mounted {
		return d, d.settled(ctx)
	}
	// Ask for a reindex, because without a mount the files are examined only on request.
	_, err = wire.Call[wire.StoreAnswer](ctx, d.Client, wire.MIndex, wire.IndexRequest{Do: "reindex"})
	return d, err
}

// settled waits until all files have a version and all versions are indexed.
func (d *daemon) settled(ctx context.Context) error {
	for end := time.Now().Add(20 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		st, err := wire.Call[wire.Status](ctx, d.Client, wire.MStatus, wire.Empty{})
		if err != nil {
			return err
		}
		if st.Baseline.Done && st.Store.Lag == 0 && st.Index["ready"] == true && st.Index["lag"] == 0.0 {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("the daemon is not ready after 20 minutes: %v", st.Index["text"])
		}
	}
}

// indexStats holds the figures that the daemon reports about the index.
type indexStats struct {
	Files     int   `json:"files"`
	Indexed   int   `json:"indexed"`
	Bytes     int64 `json:"bytes"`
	DiskBytes int64 `json:"disk_bytes"`
}

func (d *daemon) stats(ctx context.Context) (st indexStats, err error) {
	a, err := wire.Call[wire.StoreAnswer](ctx, d.Client, wire.MIndex, wire.IndexRequest{Do: "stats"})
	if err != nil {
		return st, err
	}
	var f struct {
		Stats json.RawMessage `json:"stats"`
	}
	err = json.Unmarshal(a.Facts, &f)
	if err == nil {
		err = json.Unmarshal(f.Stats, &st)
	}
	return st, err
}

func (d *daemon) search(ctx context.Context, q wire.SearchQuery) (wire.SearchAnswer, time.Duration, error) {
	began := time.Now()
	a, err := wire.Call[wire.SearchAnswer](ctx, d.Client, wire.MSearch, q)
	return a, time.Since(began), err
}

// at returns a quantile of durations, or 0 if there are none.
func at(ds []time.Duration, q float64) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(ds))
	return s[min(len(s)-1, int(q*float64(len(s))))]
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/1e6) }
