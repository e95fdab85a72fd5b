//go:build linux

// Command cost measures the processor time of operations, which tells more than the clock on a busy
// machine. It runs the same operations natively, and with several builds by turns. For each operation
// it prints the processor times of the client, mountd and the daemon per file. The measurement ends
// when history and index have caught up. The last number in a cell is the client's wall time for all
// files.
//
// Usage: cost [-n RUNS] [-files N] [-only REGEXP] WORK CACHEBRO…
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	perDir  = 50    // files
	saves   = 5000  // of 20 files in turn
	kept    = 50000 // saves whose bytes on disk are measured
	saveLen = 2000
	renames = 400 // of a directory
	guests  = 12  // projects that stay mounted and idle
	mounts  = 200 // mounts and unmounts elsewhere while these projects are idle
	waitFor = 5 * time.Minute
)

func main() {
	runs := flag.Int("n", 5, "runs of each build; the median counts")
	files := flag.Int("files", 10000, "files of the project")
	only := flag.String("only", "", "print only the tasks that match; tasks on which these depend still run")
	do := flag.Int("save", 0, "instead: save files in WORK this many times")
	flag.Parse()
	var err error
	switch {
	case *do > 0:
		err = save(flag.Arg(0), *do)
	case flag.NArg() < 2:
		err = errors.New("usage: cost [-n RUNS] [-files N] [-only REGEXP] WORK CACHEBRO…")
	default:
		var which *regexp.Regexp
		which, err = regexp.Compile(*only)
		if err == nil {
			err = compare(flag.Arg(0), flag.Args()[1:], *runs, *files, which)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cost:", err)
		os.Exit(1)
	}
}

// spent holds processor times and a wall time.
type spent struct {
	client, mountd, daemon, wall time.Duration
	bytes                        int64 // peak memory, or disk space per version; 0 if not measured
}

func (s spent) sum() time.Duration { return s.client + s.mountd + s.daemon }

// bench is one project. It is used with one build, or natively.
type bench struct {
	binary, dir    string
	state          string // the directory with the state of all projects
	env            []string
	mountd, daemon int
}

// work is a line of the table. It is a command that is run in the project, with the number of its
// operations.
type work struct {
	name   string
	times  int
	do     func(b *bench) *exec.Cmd // a nil command means that there is nothing to compare with
	before string                   // a command that is run first and not measured
	needed bool                     // later works need the effect of this one, so it always runs
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
		{name: "ls -l, first", times: files, do: sh("ls -lR tree >/dev/null")},
		{name: "ls -l, again", times: files, do: sh("ls -lR tree >/dev/null")},
		{name: "git status, first", times: files, do: sh("git status --porcelain")},
		{name: "git status, warm", times: files, do: sh("git status --porcelain")},
		{name: "grep of all", times: files, do: sh("grep -r neverThere tree; true"), needed: true},
		{name: "git status after it", times: files, do: sh("git status --porcelain")},
		{name: "git status after writes", times: files, do: sh("git status --porcelain"), before: "for f in tree/d0/*; do echo more >>$f; done"},
		{name: "search of a word in all", times: 1, do: own("search", "words")},
		{name: "a save", times: saves, do: func(*bench) *exec.Cmd { return exec.Command(self, "-save", strconv.Itoa(saves), "saved") }},
		{name: "rename of 50 files", times: renames, do: sh(fmt.Sprintf("export CLAUDE_CODE_SESSION_ID=mv-1; for i in $(seq %d); do mv tree/d0 tree/e && mv tree/e tree/d0; done; mv tree/d0 tree/e", renames/2))},
		{name: "plan over them", times: 1, do: own("undo", "--session", "mv-1", "--dry-run")},
		{name: "rm -rf", times: files, do: sh("CLAUDE_CODE_SESSION_ID=rm-1 rm -rf tree"), needed: true},
		{name: "dry run of its undo", times: files, do: own("undo", "--session", "rm-1", "--dry-run")},
		{name: "undo", times: files, do: own("undo", "--session", "rm-1", "--yes")},
	}
}

// These lines of the table are not in the list of works.
const (
	firstIndex = "first index"
	besides    = "search during it"
	onDisk     = "a version on disk"
	atRest     = "umount at rest"
	resting    = "12 at rest, others mount"
)

func compare(at string, binaries []string, runs, files int, only *regexp.Regexp) error {
	at, err := filepath.Abs(at)
	if err != nil {
		return err
	}
	all := slices.DeleteFunc(works(files), func(w work) bool { return !w.needed && !only.MatchString(w.name) })
	builds := append([]string{""}, binaries...)
	took := make([]map[string][]spent, len(builds)) // by work
	for i := range took {
		took[i] = map[string][]spent{}
	}
	for range runs {
		for i, binary := range builds {
			if err := run(filepath.Join(at, "cost"), binary, files, all, only, took[i]); err != nil {
				return fmt.Errorf("%s: %w", binary, err)
			}
		}
	}
	fmt.Printf("processor time of client + mountd + daemon = all, µs a file (or save, search); by the clock for all of them; %d files, medians of %d\n", files, runs)
	fmt.Printf("%-24s", "")
	for _, binary := range builds {
		fmt.Printf(" | %-40s", cmp.Or(binary, "native"))
	}
	fmt.Println()
	for _, name := range append(names(all), firstIndex, besides, onDisk, atRest, resting) {
		if !only.MatchString(name) {
			continue
		}
		fmt.Printf("%-24s", name)
		for i := range builds {
			fmt.Printf(" | %-40s", cell(took[i][name]))
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
	slices.SortFunc(all, func(a, b spent) int { return int(a.wall - b.wall) })
	wall := all[len(all)/2].wall.Round(time.Millisecond)
	text := us(m.client) + " + " + us(m.mountd) + " + " + us(m.daemon) + " = " + us(m.sum()) + "; " + wall.String()
	switch {
	case m.bytes >= 1<<20:
		text += fmt.Sprintf("; %d MB", m.bytes>>20)
	case m.bytes > 0:
		text += fmt.Sprintf("; %d B", m.bytes)
	}
	return text
}

// run measures the works, and then the works that use other projects. If a build does not know a
// work, the table has no value for it.
func run(at, binary string, files int, all []work, only *regexp.Regexp, took map[string][]spent) (err error) {
	b := &bench{binary: binary, dir: filepath.Join(at, "project"), state: filepath.Join(at, "state"), env: append(os.Environ(),
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
		began := time.Now()
		search, index, err := b.mount()
		defer b.umount()
		if err != nil {
			return err
		}
		took[firstIndex] = append(took[firstIndex], spent{daemon: index / time.Duration(files), wall: time.Since(began), bytes: memory(b.daemon)})
		took[besides] = append(took[besides], search)
		b.quiet()
	}
	for _, w := range all {
		cmd := w.do(b)
		if cmd == nil {
			continue
		}
		if w.before != "" {
			if err := b.command(exec.Command("sh", "-c", w.before)); err != nil {
				return err
			}
		}
		s, err := b.measure(cmd)
		if err != nil {
			fmt.Fprintf(os.Stderr, "cost: %s: %s: %v\n", binary, w.name, err)
			continue
		}
		n := time.Duration(w.times)
		s = spent{client: s.client / n, mountd: s.mountd / n, daemon: s.daemon / n, wall: s.wall}
		took[w.name] = append(took[w.name], s)
	}
	for _, aside := range []struct {
		name string
		do   func(at string) (spent, error)
	}{{onDisk, b.versions}, {atRest, b.leave}, {resting, b.rest}} {
		if binary == "" || !only.MatchString(aside.name) {
			continue
		}
		s, err := aside.do(filepath.Join(at, "aside"))
		if err != nil {
			return fmt.Errorf("%s: %w", aside.name, err)
		}
		took[aside.name] = append(took[aside.name], s)
	}
	return nil
}

// quiet waits until the daemon has done the work that follows the first index, or until a time
// limit.
func (b *bench) quiet() {
	for range 60 {
		before := cpu(b.daemon)
		time.Sleep(time.Second)
		if cpu(b.daemon)-before <= 20*time.Millisecond {
			return
		}
	}
}

// versions measures the disk space that the store takes for each save before contents are packed.
func (b *bench) versions(at string) (s spent, err error) {
	g := &bench{binary: b.binary, dir: filepath.Join(at, "kept"), state: b.state, env: b.env}
	defer g.umount()
	if err := fill(g.dir, 1); err != nil {
		return s, err
	}
	if _, _, err := g.mount(); err != nil {
		return s, err
	}
	before := g.disk()
	self, err := os.Executable()
	if err != nil {
		return s, err
	}
	s, err = g.measure(exec.Command(self, "-save", strconv.Itoa(kept), g.dir))
	s.client, s.mountd, s.daemon = s.client/kept, s.mountd/kept, s.daemon/kept
	s.bytes = (g.disk() - before) / kept
	return s, err
}

// rest measures the processor time that mountd of an idle project spends when another file system
// is mounted and unmounted.
func (b *bench) rest(at string) (s spent, err error) {
	var all []*bench
	defer func() {
		for _, g := range all {
			g.umount()
		}
	}()
	for i := range guests {
		g := &bench{binary: b.binary, dir: filepath.Join(at, strconv.Itoa(i)), env: b.env}
		if err := fill(filepath.Join(g.dir, "tree"), 1); err != nil {
			return s, err
		}
		all = append(all, g)
		if _, _, err := g.mount(); err != nil {
			return s, err
		}
	}
	before := time.Duration(0)
	for _, g := range all {
		if err := g.gone(g.daemon); err != nil {
			return s, err
		}
		before += cpu(g.mountd)
	}
	other := filepath.Join(at, "other")
	if err := os.Mkdir(other, 0o755); err != nil {
		return s, err
	}
	began := time.Now()
	for range mounts {
		if err := syscall.Mount("none", other, "tmpfs", 0, ""); err != nil {
			return s, err
		}
		if err := syscall.Unmount(other, 0); err != nil {
			return s, err
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.wall = time.Since(began)
	for _, g := range all {
		s.mountd += cpu(g.mountd)
	}
	s.mountd = (s.mountd - before) / guests / mounts
	return s, nil
}

// leave measures an unmount when the daemon has already ended. The result includes the time of the
// daemon that the unmount starts.
func (b *bench) leave(string) (s spent, err error) {
	if err := b.command(exec.Command(b.binary, "umount", "--force", b.dir)); err != nil {
		return s, err
	}
	if p, err := os.FindProcess(b.daemon); err == nil {
		_ = p.Signal(syscall.SIGTERM)
	}
	if err := b.gone(b.daemon); err != nil {
		return s, err
	}
	b.env = append(b.env, "CACHEBRO_IDLE=3s")
	if _, _, err := b.mount(); err != nil {
		return s, err
	}
	if err := b.gone(b.daemon); err != nil {
		return s, err
	}
	began := time.Now()
	cmd := exec.Command(b.binary, "umount", "--force", b.dir)
	if err := b.command(cmd); err != nil {
		return s, err
	}
	s = spent{client: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), wall: time.Since(began)}
	locks, _ := filepath.Glob(filepath.Join(b.state, "cachebro/*/lock"))
	for _, name := range locks {
		text, _ := os.ReadFile(name)
		first, _, _ := bytes.Cut(text, []byte(" "))
		if pid, err := strconv.Atoi(string(bytes.TrimSpace(first))); err == nil {
			s.daemon += cpu(pid)
		}
	}
	return s, nil
}

// gone waits until a process has ended.
func (b *bench) gone(pid int) error {
	for end := time.Now().Add(waitFor); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
			return nil
		}
	}
	return fmt.Errorf("the daemon (pid %d) does not end", pid)
}

// measure runs one command, and waits until cachebro has processed its effects.
func (b *bench) measure(cmd *exec.Cmd) (s spent, err error) {
	mountd, daemon, began := cpu(b.mountd), cpu(b.daemon), time.Now()
	if err := b.command(cmd); err != nil {
		return s, err
	}
	s.wall = time.Since(began)
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

// mount mounts the project, searches it after the first scan, and waits for the first index. It
// returns the time of the search and the processor time of the index.
func (b *bench) mount() (search spent, index time.Duration, err error) {
	if err := b.command(exec.Command(b.binary, "mount", b.dir)); err != nil {
		return search, 0, err
	}
	for end := time.Now().Add(waitFor); ; time.Sleep(200 * time.Millisecond) {
		s, err := b.status()
		switch {
		case err != nil:
			return search, 0, err
		case s.Scan.Done:
			b.mountd, b.daemon = s.Mountd, s.Daemon
			began := time.Now()
			cmd := exec.Command("sh", "-c", b.binary+" search words; true") // search ends with an error if it finds nothing
			if err := b.command(cmd); err != nil {
				return search, 0, err
			}
			search = spent{client: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), wall: time.Since(began)}
			err := b.settle()
			return search, cpu(b.daemon), err
		case time.Now().After(end):
			return search, 0, errors.New("the first index does not end")
		}
	}
}

func (b *bench) umount() {
	_ = b.command(exec.Command(b.binary, "umount", "--force", b.dir))
	if p, err := os.FindProcess(b.daemon); err == nil && b.daemon != 0 {
		_ = p.Kill()
	}
}

// status holds the fields of the status command that are needed here.
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

// settle waits until history and index have caught up.
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

// cpu returns the user and system time of a process.
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

// memory returns the peak memory of a process.
func memory(pid int) (n int64) {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := bytes.Cut(b, []byte("VmHWM:"))
	_, _ = fmt.Sscan(string(rest), &n)
	return n << 10
}

// disk returns the disk space that the store takes.
func (b *bench) disk() (sum int64) {
	dirs, _ := filepath.Glob(filepath.Join(b.state, "cachebro", filepath.Base(b.dir)+"-*", "store"))
	for _, dir := range dirs {
		_ = filepath.WalkDir(dir, func(name string, _ os.DirEntry, err error) error {
			var st syscall.Stat_t
			if err == nil && filepath.Base(name) != "ballast" && syscall.Lstat(name, &st) == nil {
				sum += st.Blocks * 512
			}
			return nil
		})
	}
	return sum
}

// fill makes files that were last written long ago. git compares times in whole seconds. If the
// files were as young as git's index, git would in some runs read them again to see whether they
// have changed.
func fill(dir string, files int) error {
	var at string
	old := time.Now().Add(-time.Hour)
	for i := range files {
		if i%perDir == 0 {
			at = filepath.Join(dir, fmt.Sprintf("d%d", i/perDir))
			if err := os.MkdirAll(at, 0o755); err != nil {
				return err
			}
		}
		var b strings.Builder
		for l := range 20 + i%60 {
			fmt.Fprintf(&b, "line %d of file %d, which has some words in it\n", l, i)
		}
		name := filepath.Join(at, fmt.Sprintf("f%d.txt", i))
		if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
			return err
		}
		if err := os.Chtimes(name, old, old); err != nil {
			return err
		}
	}
	return nil
}

// save replaces files again and again, as an editor does.
func save(dir string, times int) error {
	line := "func line%d(x int) int { return x + %d }\n"
	text := strings.Repeat(fmt.Sprintf(line, 1, 1), saveLen/len(line))
	for i := range times {
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
