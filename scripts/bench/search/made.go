package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cachebro/store/wire"
)

// fresh edits files on the mount while two other writers save files there all the time. After each
// close it searches until the new line is found.
func (b *bench) fresh(ctx context.Context, d *daemon) error {
	const edits = 1000
	dir := filepath.Join(b.mounted, "bench-fresh")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var stop atomic.Bool
	var writers sync.WaitGroup
	for w := range 2 {
		writers.Go(func() {
			for n := 0; !stop.Load(); n++ {
				_ = os.WriteFile(filepath.Join(dir, fmt.Sprintf("load%d-%d.go", w, n%50)), source(rand.New(rand.NewSource(int64(n))), 60), 0o644)
				time.Sleep(5 * time.Millisecond) // this makes some hundred saves a second; more would only fill the queue
			}
		})
	}
	defer writers.Wait()
	defer stop.Store(true)
	var took []time.Duration
	again := 0
	for n := range edits {
		name, word := fmt.Sprintf("edited%d.go", n%20), fmt.Sprintf("freshWord%dEnd", n)
		if err := os.WriteFile(filepath.Join(dir, name), []byte("package p\n\nvar "+word+" = 1\n"), 0o644); err != nil {
			return err
		}
		closed := time.Now()
		for tries := 0; ; tries++ {
			a, _, err := d.search(ctx, wire.SearchQuery{Pattern: word, Mode: wire.SearchExact, CaseSensitive: true})
			if err != nil {
				return err
			}
			if len(a.Hits) == 1 {
				break
			}
			if tries > 1000 {
				return fmt.Errorf("%s is not found", word)
			}
			again++
		}
		took = append(took, time.Since(closed))
	}
	fmt.Printf("%-44s %s / %s; %d times not in the first answer\n", "found after close, 2 writers, p50 / p99", ms(at(took, 0.5)), ms(at(took, 0.99)), again)
	return nil
}

// past searches for a function that was deleted 500 versions ago.
func (b *bench) past(ctx context.Context, d *daemon) error {
	p := filepath.Join(b.mounted, "bench-past.go")
	rng := rand.New(rand.NewSource(5))
	body := strings.Split(string(source(rng, 400)), "\n")
	for n := range 501 {
		body[3+rng.Intn(300)] = fmt.Sprintf("\tedited := %d", n)
		text := strings.Join(body, "\n")
		if n == 0 {
			text += "\nfunc longGone() int { return 7 }\n"
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			return err
		}
	}
	defer os.Remove(p)
	if err := d.settled(ctx); err != nil {
		return err
	}
	var took []time.Duration
	looked := 0
	for range 11 {
		a, t, err := d.search(ctx, wire.SearchQuery{Pattern: "func longGone", Mode: wire.SearchHistory, CaseSensitive: true})
		if err != nil {
			return err
		}
		if len(a.Hits) != 1 {
			return fmt.Errorf("what was deleted 500 versions ago is found %d times", len(a.Hits))
		}
		took, looked = append(took, t), a.Looked
	}
	fmt.Printf("%-44s %s the first time, then %s; %d contents looked at\n", "deleted 500 versions ago", ms(took[0]), ms(at(took[1:], 0.5)), looked)
	return nil
}

// reindex changes 5 of 1,000 files of a project that is not mounted.
func (b *bench) reindex(ctx context.Context) error {
	dir, err := b.tree(1000)
	if err != nil {
		return err
	}
	d, err := b.dial(ctx, dir)
	if err != nil {
		return err
	}
	defer d.Close()
	var took []time.Duration
	for round := range 9 {
		for n := range 5 {
			if err := os.WriteFile(filepath.Join(dir, madeName(n*37)), fmt.Appendf(nil, "package p\n\nvar round%d = %d\n", round, n), 0o644); err != nil {
				return err
			}
		}
		began := time.Now()
		a, err := wire.Call[wire.StoreAnswer](ctx, d.Client, wire.MIndex, wire.IndexRequest{Do: "reindex"})
		if err != nil {
			return err
		}
		took = append(took, time.Since(began))
		var f wire.IndexFacts
		if err := json.Unmarshal(a.Facts, &f); err != nil || f.Changed != 5 {
			return fmt.Errorf("reindex: %s, want 5 changed: %w", a.Text, err)
		}
	}
	fmt.Printf("%-44s %s\n", "reindex of 1,000 files, 5 changed", ms(at(took, 0.5)))
	return nil
}

// growth measures trees of growing size.
func (b *bench) growth(ctx context.Context) error {
	fmt.Printf("\n%-12s %12s %12s %12s %12s\n", "files", "first index", "on disk", "memory", "query p50")
	for n := 1000; n <= b.most; n *= 10 {
		dir, err := b.tree(n)
		if err != nil {
			return err
		}
		d, err := b.dial(ctx, dir)
		if err != nil {
			return err
		}
		began := time.Now()
		if _, err := wire.Call[wire.StoreAnswer](ctx, d.Client, wire.MIndex, wire.IndexRequest{Do: "full"}); err != nil {
			return err
		}
		full := time.Since(began)
		st, err := d.stats(ctx)
		if err != nil {
			return err
		}
		var took []time.Duration
		for i := range 41 {
			_, t, err := d.search(ctx, wire.SearchQuery{Pattern: fmt.Sprintf("only%dHere", i*n/41), Mode: wire.SearchExact, CaseSensitive: true, NoRefresh: true})
			if err != nil {
				return err
			}
			took = append(took, t)
		}
		fmt.Printf("%-12d %12s %9.1f MB %9.0f MB %12s\n", n, full.Round(10*time.Millisecond), float64(st.DiskBytes)/1e6, float64(anonOf(d.pid))/1e6, ms(at(took, 0.5)))
		d.Close()
	}
	return nil
}

func madeName(n int) string { return fmt.Sprintf("dir%d/file%d.go", n/100, n) }

// tree makes a git work tree of n files, unless it exists.
func (b *bench) tree(n int) (string, error) {
	dir := filepath.Join(b.work, fmt.Sprintf("made%d", n))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	rng := rand.New(rand.NewSource(int64(n)))
	for i := range n {
		p := filepath.Join(dir, madeName(i))
		if i%100 == 0 {
			if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
				return "", err
			}
		}
		text := append(source(rng, 40), fmt.Sprintf("\nvar only%dHere = 1\n", i)...)
		if err := os.WriteFile(p, text, 0o644); err != nil {
			return "", err
		}
	}
	return dir, exec.Command("git", "init", "-q", dir).Run()
}

var sourceWords = strings.Fields("read write open close buffer index search version store path file name line token parse error context request response handler client server config option value key map slice length offset reader writer scan match query result count limit start end node tree branch leaf")

// source makes text that looks like code.
func source(rng *rand.Rand, lines int) []byte {
	out := []byte("package made\n\n")
	for range lines {
		w := func() string { return sourceWords[rng.Intn(len(sourceWords))] }
		out = fmt.Appendf(out, "\t%s%s := %s.%s(%s%d, %q)\n", w(), strings.ToUpper(w()[:1])+w(), w(), w(), w(), rng.Intn(100_000), w()+" "+w())
	}
	return out
}
