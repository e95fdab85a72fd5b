//go:build linux

// Command cost measures what operations cost in processor time, which tells more than the
// clock on a machine that is busy: for each work the time of whoever does it, of mountd and
// of the daemon, until history and index have caught up, divided by the number of files. It
// does the same natively, and with each of several builds by turns.
//
// Usage: cost [-n RUNS] [-files N] WORK CACHEBRO…
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	perDir  = 50   // files
	saves   = 5000 // of 20 files in turn
	saveLen = 2000
	waitFor = 5 * time.Minute
)

func main() {
	runs := flag.Int("n", 5, "runs of each build; the median counts")
	files := flag.Int("files", 10000, "files of the project")
	do := flag.Bool("save", false, "instead: save files in WORK")
	flag.Parse()
	var err error
	switch {
	case *do:
		err = save(flag.Arg(0))
	case flag.NArg() < 2:
		err = errors.New("usage: cost [-n RUNS] [-files N] WORK CACHEBRO…")
	default:
		err = compare(flag.Arg(0), flag.Args()[1:], *runs, *files)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cost:", err)
		os.Exit(1)
	}
}

// spent is processor time.
type spent struct{ client, mountd, daemon time.Duration }

func (s spent) sum() time.Duration { return s.client + s.mountd + s.daemon }

// bench is one project, with one build or natively.
type bench struct {
	binary, dir    string
	env            []string
	mountd, daemon int
}

// work is a line of the table: it is done in the project, of times files.
type work struct {
	name  string
	times int
	do    func(b *bench) *exec.Cmd // nil: not natively
}

func works(files int) []work {
	sh := func(command string) func(b *bench) *exec.Cmd {
		return func(*bench) *exec.Cmd { return exec.Command("sh", "-c", command) }
	}
	own := func(args ...string) func(b *bench) *exec.Cmd {
		return func(b *bench) *exec.Cmd {
			if b.binary == "" {
				return nil
			}
			return exec.Command(b.binary, args...)
		}
	}
	self, _ := os.Executable()
	return []work{
		{"ls -l, first", files, sh("ls -lR tree >/dev/null")},
		{"ls -l, again", files, sh("ls -lR tree >/dev/null")},
		{"git status, first", files, sh("git status --porcelain")},
		{"git status, warm", files, sh("git status --porcelain")},
		{"grep of all", files, sh("grep -r neverThere tree; true")},
		{"git status after it", files, sh("git status --porcelain")},
		{"search of a word in all", 1, own("search", "words")},
		{"a save", saves, func(*bench) *exec.Cmd { return exec.Command(self, "-save", "saved") }},
		{"rm -rf", files, sh("CLAUDE_CODE_SESSION_ID=rm-1 rm -rf tree")},
		{"dry run of its undo", files, own("undo", "--session", "rm-1", "--dry-run")},
		{"undo", files, own("undo", "--session", "rm-1", "--yes")},
	}
}

func compare(at string, binaries []string, runs, files int) error {
	at, err := filepath.Abs(at)
	if err != nil {
		return err
	}
	all := works(files)
	builds := append([]string{""}, binaries...)
	took := make([][][]spent, len(builds)) // build → work → runs; the first index is the last work
	for i := range took {
		took[i] = make([][]spent, len(all)+1)
	}
	for range runs {
		for i, binary := range builds {
			if err := run(filepath.Join(at, "cost"), binary, files, all, took[i]); err != nil {
				return fmt.Errorf("%s: %w", binary, err)
			}
		}
	}
	fmt.Printf("processor time of client + mountd + daemon = all, µs; %d files, medians of %d\n", files, runs)
	for w, name := range append(names(all), "first index") {
		fmt.Printf("%-24s", name)
		for i := range builds {
			fmt.Printf(" | %-34s", cell(took[i][w]))
		}
		fmt.Println()
	}
	return nil
}

func names(all []work) (list []string) {
	for _, w := range all {
		list = append(list, w.name)
	}
	return list
}

func cell(all []spent) string {
	if len(all) == 0 {
		return "–"
	}
	slices.SortFunc(all, func(a, b spent) int { return int(a.sum() - b.sum()) })
	m := all[len(all)/2]
	us := func(d time.Duration) string {
		return strconv.FormatFloat(float64(d)/float64(time.Microsecond), 'f', 0, 64)
	}
	return us(m.client) + " + " + us(m.mountd) + " + " + us(m.daemon) + " = " + us(m.sum())
}

func run(at, binary string, files int, all []work, took [][]spent) (err error) {
	b := &bench{binary: binary, dir: filepath.Join(at, "project"), env: append(os.Environ(),
		"XDG_STATE_HOME="+filepath.Join(at, "state"), "XDG_RUNTIME_DIR="+filepath.Join(at, "run"), "HOME="+filepath.Join(at, "home"), "GIT_CONFIG_GLOBAL=/dev/null")}
	for _, d := range []string{"state", "run", "home", "project/tree", "project/saved"} {
		if err := os.MkdirAll(filepath.Join(at, d), 0o700); err != nil {
			return err
		}
	}
	defer os.RemoveAll(at)
	if err := fill(filepath.Join(b.dir, "tree"), files); err != nil {
		return err
	}
	git := exec.Command("sh", "-c", "git init -q . && git config gc.auto 0 && git add -A && git -c user.name=b -c user.email=b@example.org commit -qm all")
	if err := b.command(git); err != nil {
		return err
	}
	if binary != "" {
		index, err := b.mount()
		defer b.umount()
		if err != nil {
			return err
		}
		took[len(all)] = append(took[len(all)], spent{daemon: index / time.Duration(files)})
	}
	for i, w := range all {
		cmd := w.do(b)
		if cmd == nil {
			continue
		}
		s, err := b.measure(cmd)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		n := time.Duration(w.times)
		took[i] = append(took[i], spent{s.client / n, s.mountd / n, s.daemon / n})
	}
	return nil
}

// measure does one work, and waits until what it made to do is done.
func (b *bench) measure(cmd *exec.Cmd) (s spent, err error) {
	mountd, daemon := cpu(b.mountd), cpu(b.daemon)
	if err := b.command(cmd); err != nil {
		return s, err
	}
	err = b.settle()
	s.client = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	s.mountd, s.daemon = cpu(b.mountd)-mountd, cpu(b.daemon)-daemon
	return s, err
}

func (b *bench) command(cmd *exec.Cmd) error {
	cmd.Dir, cmd.Env = b.dir, b.env
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%v: %w: %s", cmd.Args, err, said.Bytes())
	}
	return nil
}

// mount mounts the project and waits for its first index, whose processor time it returns.
func (b *bench) mount() (index time.Duration, err error) {
	if err := b.command(exec.Command(b.binary, "mount", b.dir)); err != nil {
		return 0, err
	}
	for end := time.Now().Add(waitFor); ; time.Sleep(200 * time.Millisecond) {
		s, err := b.status()
		switch {
		case err != nil:
			return 0, err
		case s.Scan.Done:
			b.mountd, b.daemon = s.Mountd, s.Daemon
			return cpu(b.daemon), b.settle()
		case time.Now().After(end):
			return 0, errors.New("the first index does not end")
		}
	}
}

func (b *bench) umount() {
	_ = b.command(exec.Command(b.binary, "umount", "--force", b.dir))
	if p, err := os.FindProcess(b.daemon); err == nil && b.daemon != 0 {
		_ = p.Kill()
	}
}

// status is what it says, as far as it is needed here.
type status struct {
	Daemon int `json:"daemon_pid"`
	Mountd int `json:"mountd_pid"`
	Scan   struct {
		Done bool `json:"done"`
	} `json:"baseline"`
}

func (b *bench) status() (s status, err error) {
	out, err := b.rawStatus()
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(out, &s)
}

func (b *bench) rawStatus() ([]byte, error) {
	cmd := exec.Command(b.binary, "status", "--json")
	cmd.Dir, cmd.Env = b.dir, b.env
	return cmd.Output()
}

// settle waits until history and index are behind in nothing.
func (b *bench) settle() error {
	if b.binary == "" {
		return nil
	}
	for end := time.Now().Add(waitFor); time.Now().Before(end); time.Sleep(300 * time.Millisecond) {
		out, err := b.rawStatus()
		if err != nil {
			return err
		}
		behind := strings.Count(string(out), `"lag":`) - strings.Count(string(out), `"lag":0,`) - strings.Count(string(out), `"lag":0}`)
		if behind == 0 {
			return nil
		}
	}
	return errors.New("history or index do not catch up")
}

// cpu is what a process has used so far, user and system.
func cpu(pid int) (sum time.Duration) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	for _, at := range []int{11, 12} { // utime, stime in ticks of 10 ms
		if n, err := strconv.Atoi(string(f[at])); err == nil {
			sum += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return sum
}

func fill(dir string, files int) error {
	var at string
	for i := range files {
		if i%perDir == 0 {
			at = filepath.Join(dir, fmt.Sprintf("d%d", i/perDir))
			if err := os.Mkdir(at, 0o755); err != nil {
				return err
			}
		}
		var b strings.Builder
		for l := range 20 + i%60 {
			fmt.Fprintf(&b, "line %d of file %d, which has some words in it\n", l, i)
		}
		if err := os.WriteFile(filepath.Join(at, fmt.Sprintf("f%d.txt", i)), []byte(b.String()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// save replaces files again and again, as an editor does.
func save(dir string) error {
	line := "func line%d(x int) int { return x + %d }\n"
	text := strings.Repeat(fmt.Sprintf(line, 1, 1), saveLen/len(line))
	for i := range saves {
		name := filepath.Join(dir, fmt.Sprintf("s%d.go", i%20))
		if err := os.WriteFile(name+".tmp", []byte(text+fmt.Sprintf(line, i, i)), 0o644); err != nil {
			return err
		}
		if err := os.Rename(name+".tmp", name); err != nil {
			return err
		}
	}
	return nil
}
