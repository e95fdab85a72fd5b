// Command history measures what a long history costs. With -make it makes a project and, through
// the store's own interface, a history with the requested number of versions. The history contains
// baselines of existing files, files that are edited again and again, a log that grows by a line
// with each version, a removed directory, and another scan at the end. With -cachebro it runs
// commands of this binary on that history. For each command it prints the processor time of the
// daemon and of the client, the wall time, the megabytes that the daemon read, and the number of
// lines in the answer.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"cachebro/store"
	"cachebro/store/wire"
)

func main() {
	binary := flag.String("cachebro", "", "the cachebro binary to query")
	work := flag.String("work", "", "the directory of the project and its history")
	n := flag.Int("make", 0, "make a history of this many versions")
	only := flag.String("only", "", "ask only the questions whose name contains this text")
	runs := flag.Int("runs", 1, "how often to ask each question; the run with the median processor time of the daemon is printed")
	flag.Parse()
	err := errors.New("name -work, and -make or -cachebro")
	if *work != "" && *n > 0 {
		err = makeHistory(*work, *n)
	} else if *work != "" && *binary != "" {
		err = ask(*binary, *work, *only, *runs)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func root(work string) string { return filepath.Join(work, "project") }

// environment returns an environment that puts all state below work.
func environment(work string) []string {
	return append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(work, "state"), "XDG_RUNTIME_DIR="+filepath.Join(work, "run"), "CACHEBRO_DIR=", "NO_COLOR=1")
}

// The numbers of versions of each kind, in thousandths of all versions. All other versions are
// edits; see edited.
const (
	found, late = 100, 200 // baselines at the beginning and at the end
	growing     = 100      // the maximum number of versions of one growing log file
	hot         = 100      // versions of 50 files that are edited all the time
	logged      = 20_000
	edited      = 2000 // number of files that the other versions edit, remove and make again
)

// maker applies versions to a store.
type maker struct {
	s    *store.Store
	root string
	cs   []store.Change
	at   int64
	who  store.Actor
	rnd  *rand.Rand
}

func makeHistory(work string, n int) (err error) {
	for _, d := range []string{"state", "run", "project"} {
		if err := os.MkdirAll(filepath.Join(work, d), 0o700); err != nil {
			return err
		}
	}
	state, err := wire.Paths{StateHome: filepath.Join(work, "state")}.MakeState(root(work))
	if err != nil {
		return err
	}
	s, err := store.Open(filepath.Join(state, "store"), store.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	m := &maker{s: s, root: root(work), at: time.Now().Add(-10 * 24 * time.Hour).UnixNano(), rnd: rand.New(rand.NewSource(1))}
	text := map[string][]byte{} // the present text of each file
	put := func(op store.Op, name string, content []byte) {
		text[name] = content
		m.add(store.Change{Op: op, Path: store.Path(name), HasContent: true, Content: content, Stat: m.stat(name, len(content))})
	}
	m.who = store.Actor{}
	for i := range n * found / 1000 {
		put(store.OpBaseline, fmt.Sprintf("tree/d%d/f%d.go", i/100, i), m.file(i, 12))
	}
	m.who = store.Actor{PID: 100, Start: 1, Comm: "go", Session: "edits", Prompt: "p1"}
	name := func(i int) string { return fmt.Sprintf("src/d%d/f%d.go", i/50, i) }
	for i := range edited {
		put(store.OpCreate, name(i), m.file(i, 40))
	}
	for i := range n * hot / 1000 {
		m.who.Session = "hot"
		put(store.OpWrite, fmt.Sprintf("hot/f%d.go", i%50), m.file(i%50, 40))
	}
	m.who = store.Actor{PID: 101, Start: 1, Comm: "server", Session: "log"}
	var log []byte
	lines := min(n*growing/1000, logged)
	for i := range lines {
		log = fmt.Appendf(bytes.Clone(log), "%d request %d served\n", i, m.rnd.Intn(1e6))
		put(store.OpWrite, "app.log", log)
	}
	m.who = store.Actor{PID: 102, Start: 1, Comm: "sed", Session: "edits", Prompt: "p2"}
	for i := range n - n*(found+late+hot)/1000 - lines - 3*edited {
		put(store.OpWrite, name(i%edited), m.file(i%edited, 40))
	}
	m.who = store.Actor{PID: 103, Start: 1, Comm: "rm", Session: "removal", Prompt: "p3"}
	for i := range edited {
		m.add(store.Change{Op: store.OpUnlink, Path: store.Path(name(i)), LastName: true, Stat: store.Stat{Mode: 0o100644, Nlink: 1}})
	}
	m.who = store.Actor{PID: 104, Start: 1, Comm: "cp", Session: "again", Prompt: "p4"}
	for i := range edited {
		put(store.OpCreate, name(i), m.file(i, 40))
	}
	m.who = store.Actor{}
	for i := range n * late / 1000 {
		put(store.OpBaseline, fmt.Sprintf("late/d%d/f%d.go", i/100, i), m.file(i, 8))
	}
	if err := m.flush(); err != nil {
		return err
	}
	for name, content := range text {
		at := filepath.Join(m.root, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(at, content, 0o644); err != nil {
			return err
		}
	}
	fmt.Println(s.Seq(), "versions")
	return os.WriteFile(filepath.Join(work, made), []byte(strconv.Itoa(n)), 0o600)
}

// made is a file below work that contains the requested number of versions.
const made = "versions"

func (m *maker) stat(name string, size int) store.Stat {
	return store.Stat{Dev: 1, Mode: 0o100644, Nlink: 1, Size: int64(size), Mtime: m.at, Ctime: m.at}
}

func (m *maker) add(c store.Change) {
	m.at += int64(3 * time.Second)
	c.Time, c.Actor = m.at, m.who
	m.cs = append(m.cs, c)
	if len(m.cs) >= 1000 {
		if err := m.flush(); err != nil {
			panic(err)
		}
	}
}

func (m *maker) flush() error {
	_, err := m.s.Apply(context.Background(), m.cs, nil)
	m.cs = nil
	return err
}

// file returns a text that differs in one line from the previous version.
func (m *maker) file(i, lines int) []byte {
	var b []byte
	at := m.rnd.Intn(lines)
	for l := range lines {
		if l == at {
			b = fmt.Appendf(b, "var edit%d = %d // of file %d\n", l, m.rnd.Intn(1e9), i)
		} else {
			b = fmt.Appendf(b, "func line%dOf%d(x int) int { return x * %d }\n", l, i, l)
		}
	}
	return b
}

// questions returns commands about a history of n versions. Moments are given as version numbers.
// The times in the history are fixed, so an age such as "10m" would mean another moment each day.
func questions(n int) []string {
	midst := fmt.Sprintf(" --at #%d --dry-run", n/2)   // since then, all files of src were edited, removed and made again
	late := fmt.Sprintf(" --at #%d --dry-run", n*9/10) // since then, the last scan has found half of its files
	return []string{
		"log -n 20", "log -n 20 --actions", "log -n 20 app.log", "log -n 20 src", "status",
		"search --history vanishedNowhere", "search --history edit7", "search --history served app.log",
		"undo --session edits --dry-run", "undo --session edits --force --dry-run", "undo --session removal --dry-run",
		"restore src" + midst, "restore" + midst, "restore" + late,
		"diff --stat --since 900d", "blame app.log", "blame src/d0/f1.go", "diff app.log", "store du", "store prune", "store prune", "store fsck",
	}
}

func ask(binary, work, only string, runs int) error {
	env := environment(work)
	run := func(args ...string) (out []byte, used time.Duration, err error) {
		cmd := exec.Command(binary, args...)
		cmd.Dir, cmd.Env = root(work), env
		var both bytes.Buffer
		cmd.Stdout, cmd.Stderr = &both, &both
		err = cmd.Run()
		if cmd.ProcessState == nil {
			return nil, 0, err
		}
		return both.Bytes(), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), err
	}
	b, err := os.ReadFile(filepath.Join(work, made))
	if err != nil {
		return err
	}
	versions, err := strconv.Atoi(string(b))
	if err != nil {
		return err
	}
	if pid, err := daemon(work); err == nil { // the running daemon may be of another build
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
			return err
		}
		for syscall.Kill(pid, 0) == nil {
			time.Sleep(10 * time.Millisecond)
		}
	}
	// The first search examines all files, and later searches examine only changed files. So make
	// the first search before measuring.
	if out, _, err := run("search", "line1Of1"); err != nil {
		return fmt.Errorf("search: %w: %s", err, out)
	}
	for end := time.Now().Add(20 * time.Minute); ; time.Sleep(time.Second) {
		out, _, err := run("store", "index", "stats")
		if err != nil || time.Now().After(end) {
			return fmt.Errorf("index: %w: %s", err, out)
		}
		if bytes.Contains(out, []byte(" 0 versions behind")) {
			fmt.Printf("%s", out)
			break
		}
	}
	fmt.Printf("%-40s %9s %9s %9s %9s %7s\n", "", "daemon", "client", "wall", "read MB", "lines")
	for _, q := range questions(versions) {
		if !strings.Contains(q, only) {
			continue
		}
		var took []string
		var first []byte
		for range runs {
			pid, err := daemon(work)
			if err != nil {
				return err
			}
			before, read := spent(pid), readBy(pid)
			began := time.Now()
			out, client, err := run(strings.Fields(q)...)
			wall := time.Since(began)
			mine := spent(pid) - before
			took = append(took, fmt.Sprintf("%9d %9d %9d %9.1f %7d", mine.Milliseconds(), client.Milliseconds(), wall.Milliseconds(), float64(readBy(pid)-read)/1e6, bytes.Count(out, []byte("\n"))))
			first, _, _ = bytes.Cut(out, []byte("\n"))
			if err != nil {
				first = append(first, (" [" + err.Error() + "]")...)
			}
		}
		slices.Sort(took) // by the processor time of the daemon, because the numbers are right-aligned
		fmt.Printf("%-40s %s  %.90s\n", q, took[len(took)/2], first)
	}
	return nil
}

// daemon returns the process id in the lock of the only project below work.
func daemon(work string) (int, error) {
	all, _ := filepath.Glob(filepath.Join(work, "state", "cachebro", "*", "lock"))
	if len(all) != 1 {
		return 0, fmt.Errorf("%d locks", len(all))
	}
	b, err := os.ReadFile(all[0])
	if err != nil {
		return 0, err
	}
	pid, _, _ := strings.Cut(string(b), "\n")
	pid, _, _ = strings.Cut(pid, " ")
	n, err := strconv.Atoi(pid)
	if err != nil || syscall.Kill(n, 0) != nil {
		return 0, fmt.Errorf("no daemon in %q", b)
	}
	return n, nil
}

// spent returns the processor time of all threads of a process, as the scheduler counts it.
func spent(pid int) (sum time.Duration) {
	all, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, name := range all {
		b, _ := os.ReadFile(name)
		f, _, _ := strings.Cut(string(b), " ")
		n, _ := strconv.ParseInt(f, 10, 64)
		sum += time.Duration(n)
	}
	return sum
}

// readBy returns the number of bytes that a process has read with system calls.
func readBy(pid int) (n int64) {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	fmt.Sscanf(string(b), "rchar: %d", &n)
	return n
}
