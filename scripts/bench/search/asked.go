package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"cachebro/store/wire"
)

// fewFiles is the number of candidates up to which a query counts as selective.
const fewFiles = 200

// firstIndex builds the whole index anew. It prints how fast that was, the size of the index, and
// the daemon's memory.
func (b *bench) firstIndex(ctx context.Context, d *daemon) error {
	cpu, began := cpuOf(d.pid), time.Now()
	if _, err := wire.Call[wire.StoreAnswer](ctx, d.Client, wire.MIndex, wire.IndexRequest{Do: "full"}); err != nil {
		return err
	}
	took, cpu := time.Since(began), cpuOf(d.pid)-cpu
	st, err := d.stats(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("%-44s %d files, %.1f MB: %.1f MB/s (%.1f MB for each second of processor time)\n", "first index", st.Indexed, float64(st.Bytes)/1e6,
		float64(st.Bytes)/1e6/took.Seconds(), float64(st.Bytes)/1e6/cpu.Seconds())
	fmt.Printf("%-44s %.2f of the text\n", "index on disk", float64(st.DiskBytes)/float64(st.Bytes))
	fmt.Printf("%-44s %.0f MB\n", "daemon's own memory after it", float64(anonOf(d.pid))/1e6)
	return nil
}

// query is one of the queries in testdata/search/queries.json.
type query struct {
	Pattern       string
	Regex         bool
	CaseSensitive bool
}

// asked holds the times of one search program.
type asked struct{ wall, cpu []time.Duration }

func (a *asked) add(wall, cpu time.Duration) {
	a.wall, a.cpu = append(a.wall, wall), append(a.cpu, cpu)
}

func (a *asked) String() string {
	return fmt.Sprintf("%s / %s (cpu %s)", ms(at(a.wall, 0.5)), ms(at(a.wall, 0.95)), ms(at(a.cpu, 0.5)))
}

// askAll gives cachebro, rg and git grep the same queries one after the other, so that a slow
// minute of the machine affects all of them.
func (b *bench) askAll(ctx context.Context, d *daemon) error {
	raw, err := os.ReadFile(b.queries)
	if err != nil {
		return err
	}
	var qs []query
	if err := json.Unmarshal(raw, &qs); err != nil {
		return err
	}
	var ours, rg, git [2]asked // one for selective queries, one for all others
	differ := 0
	for i, q := range qs {
		if i%b.every != 0 {
			continue
		}
		cpu := cpuOf(d.pid)
		a, took, err := d.search(ctx, wire.SearchQuery{Pattern: q.Pattern, Mode: wire.SearchExact, Regex: q.Regex, CaseSensitive: q.CaseSensitive})
		if err != nil {
			return fmt.Errorf("%+v: %w", q, err)
		}
		cpu = cpuOf(d.pid) - cpu
		class := 0
		if a.Looked > fewFiles {
			class = 1
		}
		ours[class].add(took, cpu)
		lines, err := run(&rg[class], b.native, "rg", q.flags("--no-heading", "-a", "--hidden", "-g", "!.git", "-g", "!.env*", "--no-ignore")...)
		if err != nil {
			return err
		}
		if _, err := run(&git[class], b.native, "git", q.flags("grep", "-a", "--no-color", "-P")...); err != nil {
			return err
		}
		if lines != a.Lines {
			differ++
		}
	}
	fmt.Printf("\n%-44s %-34s %s\n", "p50 / p95", fmt.Sprintf("selective (%d)", len(ours[0].wall)), fmt.Sprintf("others (%d)", len(ours[1].wall)))
	for _, row := range []struct {
		name string
		of   *[2]asked
	}{{"cachebro, over its socket", &ours}, {"rg", &rg}, {"git grep", &git}} {
		fmt.Printf("%-44s %-34s %s\n", row.name, &row.of[0], &row.of[1])
	}
	fmt.Printf("%-44s %.2fx, %.2fx\n", "cachebro against rg, p50", ratio(ours[0], rg[0]), ratio(ours[1], rg[1]))
	fmt.Printf("%-44s %d (rg -a counts lines of binary files too)\n\n", "queries with another number of lines than rg", differ)
	return nil
}

// prompts searches with the words of prompts, as the hook does.
func (b *bench) prompts(ctx context.Context, d *daemon) error {
	raw, err := os.ReadFile(filepath.Join(filepath.Dir(b.queries), "ranking.json"))
	if err != nil {
		return err
	}
	var qs []struct {
		Ask string `json:"ask"`
	}
	if err := json.Unmarshal(raw, &qs); err != nil {
		return err
	}
	var took []time.Duration
	for _, q := range qs {
		_, t, err := d.search(ctx, wire.SearchQuery{Pattern: q.Ask, Mode: wire.SearchPrompt, Limit: 40, NoRefresh: true})
		if err != nil {
			return err
		}
		took = append(took, t)
	}
	fmt.Printf("%-44s %s / %s\n", fmt.Sprintf("40 places for each of %d prompts, p50 / p95", len(qs)), ms(at(took, 0.5)), ms(at(took, 0.95)))
	return nil
}

func ratio(a, b asked) float64 {
	return float64(at(a.wall, 0.5)) / float64(max(1, at(b.wall, 0.5)))
}

// flags returns the flags for rg and git grep. Both programs know these flags.
func (q query) flags(first ...string) []string {
	if !q.CaseSensitive {
		first = append(first, "-i")
	}
	if !q.Regex {
		for i, f := range first {
			if f == "-P" {
				first = append(first[:i:i], first[i+1:]...)
				break
			}
		}
		first = append(first, "-F")
	}
	return append(first, "-n", "-e", q.Pattern)
}

// run runs a search program to its end and counts the lines of its output.
func run(into *asked, dir, name string, args ...string) (lines int, err error) {
	if name == "rg" {
		args = append(args, ".")
	}
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	var out, problem bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problem
	began := time.Now()
	err = cmd.Run()
	into.add(time.Since(began), cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	if ee := (*exec.ExitError)(nil); errors.As(err, &ee) && ee.ExitCode() == 1 {
		err = nil // status 1 means that nothing was found
	}
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, problem.String())
	}
	return bytes.Count(out.Bytes(), []byte{'\n'}), err
}
