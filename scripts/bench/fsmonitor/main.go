// Command fsmonitor measures a warm git status: in a plain copy of a tree, on the mount, and on the
// mount with git asking cachebro for the changed files. The last is measured without and with git's
// untracked cache. Each variant has its own index, and the runs alternate, so that a slow minute of
// the machine affects all of them. The CPU time is that of git and of the processes that it starts.
// On a busy machine it tells more than wall time.
//
// Usage: fsmonitor [-n RUNS] -cachebro BIN PLAIN MOUNT
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

type place struct {
	name, dir string
	args      []string
	index     string
	wall, cpu []time.Duration
}

func main() {
	runs := flag.Int("n", 20, "runs of each command; the median counts")
	binary := flag.String("cachebro", "cachebro", "the binary that git asks")
	flag.Parse()
	if err := measure(*binary, flag.Args(), *runs); err != nil {
		fmt.Fprintln(os.Stderr, "fsmonitor:", err)
		os.Exit(1)
	}
}

func measure(binary string, dirs []string, runs int) error {
	if len(dirs) != 2 {
		return errors.New("needs two directories: one without a mount, and one with a mount")
	}
	if err := certain(binary, dirs[1]); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "fsmonitor-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	ask := []string{"-c", "core.fsmonitor=exec '" + binary + "' fsmonitor", "-c", "core.fsmonitorHookVersion=2"}
	cache := []string{"-c", "core.untrackedCache=true"}
	places := []*place{
		{name: "plain", dir: dirs[0]},
		{name: "mount", dir: dirs[1]},
		{name: "mount, fsmonitor", dir: dirs[1], args: ask},
		{name: "plain, untracked cache", dir: dirs[0], args: cache},
		{name: "mount, both", dir: dirs[1], args: append(append([]string{}, ask...), cache...)},
	}
	for i, p := range places {
		p.index = filepath.Join(tmp, fmt.Sprint(i))
		b, err := os.ReadFile(filepath.Join(p.dir, ".git", "index"))
		if err == nil {
			err = os.WriteFile(p.index, b, 0o600)
		}
		if err != nil {
			return err
		}
		for range 3 { // the first run writes the data that the settings add to the index
			if err := p.status(nil, nil); err != nil {
				return err
			}
		}
	}
	for range runs {
		for _, p := range places {
			if err := p.status(&p.wall, &p.cpu); err != nil {
				return err
			}
		}
	}
	base := median(places[0].wall)
	for _, p := range places {
		w := median(p.wall)
		fmt.Printf("git status, %-24s %6.1f ms (%.2fx), CPU %5.1f ms\n", p.name, ms(w), float64(w)/float64(base), ms(median(p.cpu)))
	}
	return nil
}

// status runs git status, which must find nothing, and records the time it took.
func (p *place) status(wall, cpu *[]time.Duration) error {
	args := []string{"-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false"} // of two values for one setting, git uses the last
	cmd := exec.Command("git", append(append(args, p.args...), "status", "--porcelain")...)
	cmd.Dir, cmd.Env = p.dir, append(os.Environ(), "GIT_INDEX_FILE="+p.index)
	begun := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(begun)
	if err != nil || len(out) > 0 {
		return fmt.Errorf("%s: %v: %.300s", p.name, err, out)
	}
	if wall != nil {
		*wall, *cpu = append(*wall, took), append(*cpu, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	}
	return nil
}

// certain waits until the mount answers with a list of paths. For some seconds after the mount was
// made, and while a process uses the source directly, the mount answers that everything may have
// changed.
func certain(binary, dir string) error {
	ask := func(token string) []byte {
		cmd := exec.Command(binary, "fsmonitor", "2", token)
		cmd.Dir = dir
		out, _ := cmd.Output()
		return out
	}
	for range 300 {
		token, _, _ := strings.Cut(string(ask("")), "\x00")
		if a := ask(token); len(a) > 0 && !bytes.HasSuffix(a, []byte("\x00/\x00")) {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return errors.New("the mount does not tell what changed")
}

func median(ds []time.Duration) time.Duration {
	s := append([]time.Duration(nil), ds...)
	sort.Slice(s, func(i, j int) bool { return s[i] < s[j] })
	return s[len(s)/2]
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
