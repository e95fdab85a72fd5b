//go:build linux

// Command bench measures the same work in several directories that contain the same files (a plain
// one, a go-fuse loopback, cachebro). It prints one table of medians. Each median has its ratio to
// the first directory. The median of the last directory also has its ratio to the directories whose
// labels begin with "loopback". Each run waits until the processors are idle, so that the
// background work of one run does not slow down the next. scripts/bench.sh prepares the directories
// and runs this command.
//
// Usage: bench [-n RUNS] [-only NAME] [-cachebro BIN] LABEL=DIR…
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

// task is one line of the table. prepare is not measured. run does ops operations, and the measured
// time is divided by ops.
type task struct {
	name    string
	unit    time.Duration
	ops     int
	prepare func(dir string) error
	run     func(dir string) error
	cleanup func(dir string) error
	few     int // the maximum number of runs; 0 means as many as requested
}

func main() {
	runs := flag.Int("n", 5, "runs of each task; the median counts")
	only := flag.String("only", "", "run only the tasks whose name contains this text")
	binary := flag.String("cachebro", "", "also measure re-reads over MCP with this binary")
	index := flag.Int("first-index", -1, "instead: mount the only DIR and let this many clients read during its first index, beside a writer if there are several")
	flag.Parse()
	if *index >= 0 && flag.NArg() == 1 {
		if err := firstIndex(*binary, flag.Arg(0), *index, *index > 1); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	if err := bench(flag.Args(), *runs, *only, *binary); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func bench(places []string, runs int, only, binary string) error {
	var labels, dirs []string
	for _, p := range places {
		label, dir, ok := strings.Cut(p, "=")
		if !ok {
			return fmt.Errorf("%q is not LABEL=DIR", p)
		}
		labels, dirs = append(labels, label), append(dirs, dir)
	}
	fmt.Printf("%-32s", fmt.Sprintf("medians of %d runs", runs))
	for _, l := range labels {
		fmt.Printf(" %17s", l)
	}
	against := rivals(labels)
	for _, i := range against {
		fmt.Printf(" %17s", "of "+labels[i])
	}
	fmt.Println()
	for _, t := range append(tasks(), bigTasks()...) {
		if !strings.Contains(t.name, only) {
			continue
		}
		runs := runs
		if t.few > 0 {
			runs = min(runs, t.few)
		}
		// Run the places by turns, so that a slow minute of the machine affects all of them.
		times := make([][]time.Duration, len(dirs))
		for range runs {
			for i, dir := range dirs {
				d, err := measure(t, dir)
				if err != nil {
					return fmt.Errorf("%s in %s: %w", t.name, labels[i], err)
				}
				times[i] = append(times[i], d)
			}
		}
		fmt.Printf("%-32s", t.name)
		base := median(times[0])
		for i := range dirs {
			m := median(times[i])
			cell := fmt.Sprintf("%.1f %s", float64(m)/float64(t.unit), unitName(t.unit))
			if i > 0 {
				cell += fmt.Sprintf(" %5.2fx", float64(m)/float64(base))
			}
			fmt.Printf(" %17s", cell)
		}
		for _, i := range against {
			fmt.Printf(" %16.2fx", float64(median(times[len(dirs)-1]))/float64(median(times[i])))
		}
		fmt.Println()
	}
	if strings.Contains("close, 8 writers", only) {
		if err := fullQueue(labels, dirs); err != nil {
			return err
		}
	}
	if binary == "" || !strings.Contains("mcp re-read", only) {
		return nil
	}
	return reread(binary, dirs[len(dirs)-1])
}

// rivals returns the indices of the loopbacks. The last directory is compared with them.
func rivals(labels []string) []int {
	var is []int
	for i, l := range labels[:max(len(labels)-1, 0)] {
		if strings.HasPrefix(l, "loopback") {
			is = append(is, i)
		}
	}
	return is
}

func measure(t task, dir string) (time.Duration, error) {
	if t.prepare != nil {
		if err := t.prepare(dir); err != nil {
			return 0, err
		}
	}
	idle(5 * time.Second)
	start := time.Now()
	err := t.run(dir)
	d := time.Since(start)
	if err == nil && t.cleanup != nil {
		err = t.cleanup(dir)
	}
	return d / time.Duration(max(t.ops, 1)), err
}

func median(ds []time.Duration) time.Duration {
	s := append([]time.Duration(nil), ds...)
	sort.Slice(s, func(i, j int) bool { return s[i] < s[j] })
	return s[len(s)/2]
}

func unitName(d time.Duration) string {
	if d == time.Microsecond {
		return "µs"
	}
	return "ms"
}

// sample returns up to n regular files, spread evenly over the tree.
func sample(dir string, n int) ([]string, error) {
	var all []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == ".git" {
			return filepath.SkipDir
		}
		if d.Type().IsRegular() {
			all = append(all, path)
		}
		return nil
	})
	if err != nil || len(all) <= n {
		return all, err
	}
	step := len(all) / n
	var some []string
	for i := 0; len(some) < n; i += step {
		some = append(some, all[i])
	}
	return some, nil
}
