package e2e

import (
	"bytes"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// monitored is a mounted repository whose git asks cachebro for changes.
type monitored struct {
	*project
	r       *rand.Rand
	workers []*worker
	short   int // number of git's requests that were answered with paths
}

func (m *monitored) git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = dir, m.env
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("git %q: %w: %s", args, err, errs.String())
	}
	return string(out), err
}

// check compares two outputs of git status. For the first, git uses cachebro's answers. For the
// second, git looks at every file itself and leaves the index unchanged.
func (m *monitored) check(what, dir string) {
	m.t.Helper()
	trace := filepath.Join(m.base, "trace")
	for _, mode := range []string{"-uall", "-unormal"} {
		args := []string{"status", "--porcelain", "-z", mode}
		m.env = append(m.env, "GIT_TRACE_FSMONITOR="+trace)
		asks := args
		if dir != m.dir { // another work tree, which init does not know
			asks = append([]string{"-c", "core.fsmonitor=" + binary + " fsmonitor", "-c", "core.fsmonitorHookVersion=2"}, args...)
		}
		got, err := m.git(dir, asks...)
		m.env = m.env[:len(m.env)-1]
		if err != nil {
			m.t.Fatal(err)
		}
		m.env = append(m.env, "GIT_OPTIONAL_LOCKS=0")
		want, err := m.git(dir, append([]string{"-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false"}, args...)...)
		m.env = m.env[:len(m.env)-1]
		if err != nil {
			m.t.Fatal(err)
		}
		text, _ := os.ReadFile(trace)
		os.Remove(trace)
		if bytes.Contains(text, []byte("fsmonitor_refresh_callback")) {
			m.short++ // git names each path that it received
		}
		if got != want {
			if len(text) > 20000 {
				text = text[:20000]
			}
			m.t.Fatalf("%s: git status %s in %s with what cachebro says:\n%q\nwithout:\n%q\n%s", what, mode, dir, got, want, text)
		}
	}
}

// blow makes all workers change files, one after the other or at the same time.
func (m *monitored) blow(n int, wait func()) {
	var wg sync.WaitGroup
	for _, w := range m.workers {
		seed := m.r.Int63()
		if m.r.Intn(3) == 0 {
			continue
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			if said := w.do("burst", m.dir, strconv.FormatInt(seed, 10), strconv.Itoa(n)); said != "ok" {
				m.t.Errorf("worker: %s", said)
			}
		}()
	}
	if wait != nil {
		wait()
	}
	wg.Wait()
}

// ready waits until cachebro answers git with a list of paths, not with "everything may have
// changed".
func (m *monitored) ready() {
	m.t.Helper()
	eventually(m.t, 60*time.Second, "cachebro tells what changed", func() bool {
		ask := func(token string) string {
			cmd := m.command("fsmonitor", "2", token)
			cmd.Dir = m.dir
			out, _ := cmd.Output()
			return string(out)
		}
		token, _, _ := strings.Cut(ask(""), "\x00")
		return token != "" && !strings.HasSuffix(ask(token), "\x00/\x00")
	})
}

// commands are what people do with git between two checks; each may fail.
var commands = [][]string{
	{"add", "-A"}, {"commit", "-qam", "more"}, {"checkout", "-q", "-f", "side"}, {"checkout", "-q", "-f", "main"}, {"stash", "-q"},
	{"stash", "pop", "-q"}, {"merge", "-q", "side"}, {"merge", "--abort"}, {"reset", "-q", "--hard"}, {"clean", "-qfd"},
	{"checkout", "-q", "--", "."}, {"rm", "-q", "-r", "--cached", "a"}, {"reset", "-q"}, {"mv", "a/f0", "c/moved"}, {"commit", "-q", "-m", "x"},
	{"-c", "core.fsmonitor=false", "status"}, {"update-index", "-q", "--refresh"}, {"add", "-A", "-N"}, {"restore", "."},
}

// TestFsmonitor: several processes change files, through the mount and below it. git must see the
// same changes whether it asks cachebro or looks at every file. CACHEBRO_SEED and CACHEBRO_ROUNDS
// are for longer runs.
func TestFsmonitor(t *testing.T) {
	t.Parallel()
	number := func(name string, usual int) int {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
			return n
		}
		return usual
	}
	seed, rounds := number("CACHEBRO_SEED", 1), number("CACHEBRO_ROUNDS", 8)
	t.Logf("seed %d, %d rounds", seed, rounds)
	m := &monitored{project: newProject(t, map[string]string{".gitignore": "*.o\nbuild/\n"}), r: rand.New(rand.NewSource(int64(seed)))}
	const config = "[user]\nname = n\nemail = e@x\n[init]\ndefaultBranch = main\n[gc]\nauto = 0\n[maintenance]\nauto = false"
	file := filepath.Join(m.base, "home/.gitconfig")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		m.write(fmt.Sprintf("%s/f%d", []string{"a", "b", "c", "a/a"}[i%4], i%5), fmt.Sprintln(i))
	}
	m.sh("git init -q && git add -A && git commit -qm first && git branch side")
	m.cb("init", "--git-fsmonitor", "--yes", m.dir)
	m.mount()
	for range 3 {
		m.workers = append(m.workers, startWorker(t))
	}
	m.ready()
	for _, args := range [][]string{{"status", "-v", "--dir", m.dir}, {"doctor", "--no-canary", "--dir", m.dir}} {
		if said, _ := m.try(args...); !strings.Contains(said, "asks the mount what changed") { // doctor may find other things
			t.Errorf("%s does not speak of git:\n%s", args, said)
		}
	}
	for round := range rounds {
		what := fmt.Sprintf("seed %d, round %d", seed, round)
		// git runs while files change. If git then has a wrong idea of a file, its next request
		// must correct that.
		m.blow(10, func() { _, _ = m.git(m.dir, "status", "--porcelain") })
		m.check(what, m.dir)
		m.blow(4, nil)
		m.check(what+", quiet", m.dir)
		for range m.r.Intn(3) {
			_, _ = m.git(m.dir, commands[m.r.Intn(len(commands))]...)
		}
		m.check(what+", git", m.dir)
		switch round % 8 {
		case 1: // git's requests do not involve the daemon
			_ = syscall.Kill(m.process("daemon"), syscall.SIGKILL)
		case 3: // the list of changes is lost with mountd
			pid := m.process("mountd")
			m.blow(10, func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
			m.check(what+", another mountd", m.dir)
			m.ready()
		case 5:
			m.underneath()
			m.check(what+", changed while unmounted", m.dir)
			m.ready()
		case 7:
			_, _ = m.git(m.dir, "worktree", "add", "-q", "-f", "wt", "-b", fmt.Sprint("w", round))
			m.check(what+", work tree", m.path("wt"))
			m.write("wt/new", what)
			m.check(what+", work tree again", m.path("wt"))
			m.check(what+", around a work tree", m.dir)
			_, _ = m.git(m.dir, "worktree", "remove", "--force", "wt")
		}
	}
	m.cb("uninit", "--yes")
	if now, _ := os.ReadFile(file); string(now) != config {
		t.Errorf("git's configuration after uninit: %q", now)
	}
	t.Logf("%d questions answered with paths", m.short)
	if m.short == 0 {
		t.Error("none of git's questions was answered with paths")
	}
}

// underneath unmounts, changes the source, and mounts again. It stops the workers first, because
// the files that they have open would no longer be served.
func (m *monitored) underneath() {
	for i, w := range m.workers {
		w.stop()
		m.workers[i] = nil
	}
	m.cb("umount", m.dir)
	s := burst{r: rand.New(rand.NewSource(m.r.Int63())), root: m.dir, held: map[string]*os.File{}}
	s.run(40)
	for _, f := range s.held {
		f.Close()
	}
	_, _ = m.git(m.dir, "status") // git asks, and gets no paths
	s.r = rand.New(rand.NewSource(m.r.Int63()))
	s.held = map[string]*os.File{}
	s.run(10)
	for _, f := range s.held {
		f.Close()
	}
	m.mount()
	for i := range m.workers {
		m.workers[i] = startWorker(m.t)
	}
}
