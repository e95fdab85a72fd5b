// Command results measures how much stored results help. It measures how long an answer takes from
// each store: memory, the project's database, Redis, and a Redis cluster of three servers. It also
// compares "memo -- go test ./..." on a real module with the command itself. It starts its own
// servers and daemon, on the loopback interface and in a temporary directory.
//
// Usage: results [-cachebro BIN] [-n N] [-module DIR]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"cachebro/scripts/testkit/redistest"
	"cachebro/store"
	"cachebro/store/memo/results"
)

func main() {
	n := flag.Int("n", 2000, "hits per store")
	binary := flag.String("cachebro", "", "also measure memo with this binary")
	module := flag.String("module", "", "a Go module whose tests pass (default: one of our dependencies in the module cache)")
	flag.Parse()
	err := stores(*n)
	if err == nil && *binary != "" {
		err = memo(*binary, *module)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "results:", err)
		os.Exit(1)
	}
}

// value has about the size of an answer to a search.
var value = []byte(strings.Repeat("src/some/file.go:120: a line that matches\n", 50))

func stores(n int) error {
	dir, err := os.MkdirTemp("", "cachebro-results")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s, err := store.Open(dir+"/store", store.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	kept, err := results.NewDisk(s.KV("results"), 0)
	if err != nil {
		return err
	}
	all := []results.Store{results.NewMemory(0), kept}
	names := []string{"memory", "disk (Badger)"}
	one, err := redistest.Start(dir)
	if err != nil {
		return err
	}
	defer one.Stop()
	cluster, err := redistest.StartCluster(dir)
	if err != nil {
		return err
	}
	defer cluster.Stop()
	for _, place := range [][2]string{{"redis", one.URL()}, {"redis cluster of 3", cluster.URL()}} {
		r, err := results.NewRedis(place[1])
		if err != nil {
			return err
		}
		defer r.Close()
		all, names = append(all, r), append(names, place[0])
	}
	fmt.Printf("%-32s %12s %12s\n", fmt.Sprintf("kept results: %d hits each", n), "p50", "p99")
	for i, st := range all {
		times, err := hits(st, n)
		if err != nil {
			return fmt.Errorf("%s: %w", names[i], err)
		}
		slices.Sort(times)
		fmt.Printf("%-32s %12s %12s\n", names[i], micro(times[n/2]), micro(times[n*99/100]))
	}
	return nil
}

func micro(d time.Duration) string {
	return fmt.Sprintf("%.1f µs", float64(d)/float64(time.Microsecond))
}

// hits measures a cache that uses only the store st. All calls are for results that st has.
func hits(st results.Store, n int) ([]time.Duration, error) {
	ctx := context.Background()
	c := results.New(results.Options{Stores: []results.Store{st}})
	const keys = 100
	ask := func(i int) (bool, error) {
		_, hit, err := c.Do(ctx, results.Call{Tool: "search", Args: i % keys,
			Holds:   func(context.Context, []results.Used) bool { return true },
			Compute: func(context.Context) (results.Answer, error) { return results.Answer{Value: value}, nil }})
		return hit, err
	}
	for i := range keys {
		if _, err := ask(i); err != nil {
			return nil, err
		}
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) { // entries are written to Redis in the background, so wait
		have := 0
		for i := range keys {
			if _, ok := c.Get(ctx, results.Call{Tool: "search", Args: i}); ok {
				have++
			}
		}
		if have == keys {
			break
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("not everything was stored")
		}
	}
	var times []time.Duration
	for i := range n {
		began := time.Now()
		hit, err := ask(i)
		times = append(times, time.Since(began))
		if err != nil || !hit {
			return nil, fmt.Errorf("call %d: hit %v, %v", i, hit, err)
		}
	}
	return times, nil
}
