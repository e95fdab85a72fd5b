package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"testing"
)

// twoActors is a tree on which two sessions work in turn, and what a person would say about it:
// which paths exist, and who changed each one last.
type twoActors struct {
	p       *project
	rng     *rand.Rand
	last    map[string]string // path → the actor who wrote the content
	mode    map[string]string // path → the actor who set the mode
	dirs    []string
	written map[string]string // hash → a path that had this content, and the content
	n       int
}

// as runs a shell command as one of the actors.
func (x *twoActors) as(actor, script string) {
	x.p.t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir, cmd.Env = x.p.dir, append(x.p.env, "CLAUDE_CODE_SESSION_ID="+actor)
	if out, err := cmd.CombinedOutput(); err != nil {
		x.p.t.Fatalf("%s: %s: %v\n%s", actor, script, err, out)
	}
}

func (x *twoActors) some() string {
	paths := make([]string, 0, len(x.last))
	for path := range x.last {
		paths = append(paths, path)
	}
	sort.Strings(paths)
	return paths[x.rng.Intn(len(paths))]
}

func (x *twoActors) fresh() string {
	for {
		path := filepath.Join(x.dirs[x.rng.Intn(len(x.dirs))], fmt.Sprintf("f%d", x.rng.Intn(40+x.n)))
		if _, ok := x.last[path]; !ok {
			return path
		}
	}
}

// closed records the present content of a file.
func (x *twoActors) closed(path string) {
	b, err := os.ReadFile(x.p.path(path))
	if err != nil {
		x.p.t.Fatal(err)
	}
	h := sha256.Sum256(b)
	x.written[hex.EncodeToString(h[:])] = path + ": " + brief(string(b))
}

// act makes one actor do something random, and returns what it was.
func (x *twoActors) act(actor string) string {
	x.n++
	mark := fmt.Sprintf("%s-%d", actor, x.n)
	path := x.some()
	var script string
	switch k := x.rng.Intn(10); {
	case k < 3:
		script = fmt.Sprintf("echo %s >%s", mark, path)
	case k < 4:
		script = fmt.Sprintf("echo %s >>%s", mark, path)
	case k < 5:
		script = fmt.Sprintf("sed -i '1s/$/ %s/' %s", mark, path)
	case k < 7:
		path = x.fresh()
		script = fmt.Sprintf("mkdir -p $(dirname %s) && echo %s >%s", path, mark, path)
	case k < 8 && len(x.last) > 3:
		delete(x.last, path)
		script = "rm " + path
	case k < 9:
		to := x.fresh()
		script = fmt.Sprintf("mkdir -p $(dirname %s) && mv %s %s", to, path, to)
		x.last[to], x.mode[to] = x.last[path], x.mode[path] // it is the same file
		delete(x.last, path)
		x.as(actor, script)
		x.closed(to)
		return actor + ": " + script
	default:
		mode := []os.FileMode{0o600, 0o644, 0o755}[x.rng.Intn(3)]
		script = fmt.Sprintf("chmod %o %s", mode, path)
		if fi, err := os.Stat(x.p.path(path)); err == nil && fi.Mode().Perm() == mode {
			x.as(actor, script) // changes nothing, so the file still belongs to the other actor
			return actor + ": " + script + " (as it was)"
		}
		x.mode[path] = actor
		x.as(actor, script)
		return actor + ": " + script
	}
	x.as(actor, script)
	if !strings.HasPrefix(script, "rm ") {
		if _, there := x.last[path]; !there {
			x.mode[path] = actor
		}
		x.last[path] = actor
		x.closed(path)
	}
	return actor + ": " + script
}

// tree returns every path with its kind, mode and content.
func (x *twoActors) tree() map[string]string {
	x.p.t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(x.p.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == x.p.dir {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		facts := fi.Mode().String()
		if fi.Mode().IsRegular() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			facts += " " + string(b)
		}
		out[strings.TrimPrefix(path, x.p.dir+"/")] = facts
		return nil
	})
	if err != nil {
		x.p.t.Fatal(err)
	}
	return out
}

func differ(a, b map[string]string) string {
	var out []string
	for path, facts := range a {
		if other, ok := b[path]; !ok {
			out = append(out, fmt.Sprintf("- %s %q", path, facts))
		} else if other != facts {
			out = append(out, fmt.Sprintf("! %s %q, was %q", path, other, facts))
		}
	}
	for path, facts := range b {
		if _, ok := a[path]; !ok {
			out = append(out, fmt.Sprintf("+ %s %q", path, facts))
		}
	}
	sort.Strings(out)
	return strings.Join(out, "\n")
}

// TestUndoWithTwoActors checks law 6 of doc/architecture.md on a real mount. An undo never changes
// a content or a mode that the other actor set last. A redo restores exactly the state before.
// Every content that was ever closed stays in the history.
func TestUndoWithTwoActors(t *testing.T) {
	rounds, seed := 3, int64(1)
	if s := os.Getenv("CACHEBRO_SEED"); s != "" {
		seed, _ = strconv.ParseInt(s, 10, 64)
	}
	if s := os.Getenv("CACHEBRO_ROUNDS"); s != "" {
		rounds, _ = strconv.Atoi(s)
	}
	t.Logf("CACHEBRO_SEED=%d CACHEBRO_ROUNDS=%d", seed, rounds)
	p := newProject(t, map[string]string{"f0": "zero\n", "f1": "one\n", "d/f2": "two\n", "d/e/f3": "three\n"})
	p.mount()
	x := &twoActors{p: p, rng: rand.New(rand.NewSource(seed)), last: map[string]string{"f0": "", "f1": "", "d/f2": "", "d/e/f3": ""},
		mode: map[string]string{}, dirs: []string{"", "d", "d/e", "g"}, written: map[string]string{}}
	undone, conflicts := 0, 0
	for round := range rounds {
		a, b := fmt.Sprintf("a%d", round), fmt.Sprintf("b%d", round)
		var trace []string
		for range 12 {
			trace = append(trace, x.act([]string{a, b}[x.rng.Intn(2)]))
		}
		said := func(what string) string { return what + "\n" + strings.Join(trace, "\n") }
		before := x.tree()
		out, _ := p.try("undo", "--dir", p.dir, "--session", a, "--yes")
		trace = append(trace, out)
		after := x.tree()
		conflicts += strings.Count(out, "conflict ")
		for path, who := range x.last {
			// A file that somebody else had moved is restored with what was written to it since.
			moved := regexp.MustCompile(`\n  R ` + regexp.QuoteMeta(path) + ` -> (.*)\n`).FindStringSubmatch(out)
			at := path
			if moved != nil {
				at = moved[1]
			}
			modeBefore, contentBefore, _ := strings.Cut(before[path], " ")
			modeAfter, contentAfter, _ := strings.Cut(after[at], " ")
			if who == b && contentBefore != contentAfter || x.mode[path] == b && modeBefore != modeAfter {
				t.Fatal(said(fmt.Sprintf("%s was last touched by %s, and undo made %q of %q", path, b, after[path], before[path])))
			}
		}
		if strings.Contains(out, "not done") || strings.Contains(out, "cachebro:") && !strings.Contains(out, "nothing to undo") {
			t.Fatal(said("undo failed"))
		}
		if !strings.Contains(out, "done: ") {
			if d := differ(before, after); d != "" {
				t.Fatal(said("nothing to undo, and yet\n" + d))
			}
			continue
		}
		undone++
		for i := range 2 {
			p.cb("redo", "--dir", p.dir, "--yes")
			if d := differ(before, x.tree()); d != "" {
				t.Fatal(said(fmt.Sprintf("redo %d is not what was undone:\n%s", i, d)))
			}
			if i == 1 {
				break
			}
			out, _ = p.try("undo", "--dir", p.dir, "--session", a, "--yes")
			trace = append(trace, out)
			if d := differ(after, x.tree()); d != "" {
				t.Fatal(said("the second undo is not the first:\n" + d))
			}
		}
	}
	kept := map[string]bool{}
	for _, e := range p.log("", "--baselines") {
		kept[e.Hash] = true
	}
	for h, what := range x.written {
		if !kept[h] {
			t.Errorf("not in the history: %s", what)
		}
	}
	if out := p.cb("store", "fsck", "--dir", p.dir); !strings.Contains(out, "no problems") && !strings.Contains(out, "in order") {
		t.Logf("fsck: %s", out)
	}
	t.Logf("%d of %d undone, %d conflicts, %d contents kept", undone, rounds, conflicts, len(x.written))
}

// TestUndoOfProcessTree: undo --pid must undo the changes of a process and all its descendants,
// even if some of these processes change nothing. It used to undo one process only.
func TestUndoOfProcessTree(t *testing.T) {
	p := newProject(t, map[string]string{"a": "1\n", "b": "1\n", "c": "1\n", "d": "1\n"})
	p.mount()
	x := &twoActors{p: p}
	before := x.tree()
	pid := filepath.Join(p.base, "pid")
	x.as("", `sh -c 'echo $$ >`+pid+`; sh -c "echo 2 >a; sh -c \"sh -c \\\"echo 2 >b; rm c\\\"; true\"; true"; true'; true`)
	x.as("", "echo mine >d")
	before["d"] = strings.Replace(before["d"], "1\n", "mine\n", 1)
	raw, err := os.ReadFile(pid)
	if err != nil {
		t.Fatal(err)
	}
	out := p.cb("undo", "--dir", p.dir, "--pid", strings.TrimSpace(string(raw)), "--yes")
	if d := differ(before, x.tree()); d != "" {
		t.Errorf("undo --pid:\n%s\n%s", d, out)
	}
}
