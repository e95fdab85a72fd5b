package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"cachebro/store/tokens"
)

var (
	lives = flag.Int("lives", 1, "random lives for each client")
	life  = flag.Uint64("life", 1, "seed of the first life")
)

// TestLives plays random sessions, which each client reports in its own way. They consist of reads
// of files and of parts of files, edits, writes, changes by others, sub-agents and compactions. vary
// adds prompts, rewinds, resumes and silent clearings. No answer may be false, whatever a client
// reports or omits. A client that reports nothing about its model's context gets every text in full.
func TestLives(t *testing.T) {
	needFuse(t)
	binary, version, err := build(t.TempDir(), os.Getenv("CACHEBRO_BIN"))
	if err != nil {
		t.Fatal(err)
	}
	for _, client := range clientNames {
		t.Run(client, func(t *testing.T) {
			sum := &result{}
			for seed := *life; seed < *life+uint64(*lives); seed++ {
				r, err := play(randomLife(seed), options{mode: "hooks", client: client, binary: binary, version: version,
					tokens: tokens.EstimateString, progress: func(s string) { t.Log(s) }, seed: seed})
				if err != nil {
					t.Fatalf("life %d: %v", seed, err)
				}
				for _, w := range r.wrong {
					t.Errorf("life %d: false: %s", seed, w)
				}
				sum.add(r)
			}
			t.Logf("%d reads, %d stubs, %d diffs, %d edits, cleared %d times, told %d times", sum.reads, sum.stubs, sum.diffs, sum.edits, sum.cleared, sum.news)
			if silent := client == gemini; silent != (sum.stubs+sum.diffs == 0) {
				t.Errorf("%d stubs and %d diffs", sum.stubs, sum.diffs)
			}
		})
	}
}

// randomLife returns a session of 150 steps on four files.
func randomLife(seed uint64) *trace {
	r := rand.New(rand.NewPCG(seed, 2))
	t := &trace{name: fmt.Sprintf("life%d", seed)}
	line := func() int {
		t.LineBytes = append(t.LineBytes, 5+r.IntN(60))
		return len(t.LineBytes) - 1
	}
	fresh := func(n int) (lines []int) {
		for range n {
			lines = append(lines, line())
		}
		return lines
	}
	t.LineBytes = []int{0}
	files := map[int][]int{}
	for f := range 4 {
		files[f] = append(fresh(20+r.IntN(180)), 0) // an empty line follows the last newline
	}
	splice := func(is []int, at, to int, with []int) []int { return slices.Concat(is[:at], with, is[to:]) }
	for range 150 {
		agent := max(0, r.IntN(5)-2)
		f := r.IntN(len(files))
		is := files[f]
		e := traceEvent{Agent: agent, File: f}
		switch n := r.IntN(20); {
		case n == 0:
			e.Op = "compact"
		case n == 1 && r.IntN(2) == 0:
			e.Op = "write"
			files[f] = append(fresh(1+r.IntN(120)), 0)
			e.Lines = files[f]
		case n < 6 && len(is) > 4:
			at := r.IntN(len(is) - 3)
			to := at + 1 + r.IntN(2)
			e.Op, e.Old, e.New = "edit", slices.Clone(is[at:to]), fresh(1+r.IntN(3))
			files[f] = splice(is, at, to, e.New)
		default:
			e.Op, e.Start, e.Lines = "read", 1, is
			if r.IntN(3) == 0 && len(is) > 3 {
				e.Start = 1 + r.IntN(len(is)-2)
				last := e.Start + r.IntN(len(is)-1-e.Start)
				e.Lines = is[e.Start-1 : last]
			}
			e.Total = len(is)
		}
		e.Lines = slices.Clone(e.Lines)
		t.Events = append(t.Events, e)
		if r.IntN(4) == 0 { // a change by another process, which a later read shows
			at := r.IntN(len(files[f]) - 1)
			to := min(len(files[f])-1, at+r.IntN(3))
			files[f] = splice(files[f], at, to, fresh(r.IntN(3)))
		}
	}
	return t
}
