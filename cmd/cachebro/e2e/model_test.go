package e2e

import (
	"bytes"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"
)

// node is an inode of the model; several paths may name it.
type node struct {
	text   string
	poked  bool // written through a held descriptor and not closed since
	holder int  // worker that holds it open for writing, -1 none
	held   string
}

// model is the expected state of the tree and its history.
type model struct {
	files  map[string]*node
	dirs   map[string]bool
	closed map[string][]string // path → contents in the order in which they were closed there
}

// keep records that a content was closed under every name of a node.
func (m *model) keep(n *node) {
	for path, other := range m.files {
		if other == n {
			m.keepAt(path, n.text)
		}
	}
}

func (m *model) keepAt(path, text string) {
	h := m.closed[path]
	if len(h) == 0 || h[len(h)-1] != text {
		m.closed[path] = append(h, text)
	}
}

// TestRandomOperations lets several processes change a tree in a random order and compares the
// overlay with the model. The tree must equal the source all the time, and every closed content
// must be in the log, in order.
func TestRandomOperations(t *testing.T) {
	ops, seed := 600, int64(1)
	if s := os.Getenv("CACHEBRO_SEED"); s != "" {
		seed, _ = strconv.ParseInt(s, 10, 64)
	}
	if s := os.Getenv("CACHEBRO_OPS"); s != "" {
		ops, _ = strconv.Atoi(s)
	}
	t.Logf("CACHEBRO_SEED=%d CACHEBRO_OPS=%d", seed, ops)
	rng := rand.New(rand.NewSource(seed))
	p := newProject(t, map[string]string{"a": "first a\n", "b": "first b\n", "d/c": "first c\n"})
	p.mount()
	// A file that is renamed before the first scan has seen it is in the history under its new
	// name only. That is right, but the model does not expect it.
	eventually(t, 20*time.Second, "the baseline is complete", func() bool {
		return strings.Contains(p.cb("status", "--json", "--dir", p.dir), `"done":true`)
	})
	m := &model{files: map[string]*node{}, dirs: map[string]bool{"": true, "d": true}, closed: map[string][]string{}}
	for path, text := range map[string]string{"a": "first a\n", "b": "first b\n", "d/c": "first c\n"} {
		m.files[path] = &node{text: text, holder: -1}
		m.keepAt(path, text)
	}
	workers := make([]*worker, 3)
	for i := range workers {
		workers[i] = startWorker(t)
	}
	var trace []string
	for i := range ops {
		line := step(m, rng, workers, p)
		trace = append(trace, line)
		if i%25 == 24 {
			if diff := compareTrees(p, m); diff != "" {
				t.Fatalf("after operation %d: %s\n%s", i, diff, strings.Join(tail(trace, 30), "\n"))
			}
		}
	}
	for i, w := range workers { // closing a held file closes its content
		for _, n := range m.files {
			if n.holder == i && n.poked {
				m.keep(n)
				n.poked = false
			}
		}
		w.stop()
	}
	if diff := compareTrees(p, m); diff != "" {
		t.Fatalf("at the end: %s", diff)
	}
	checkHistory(t, p, m, trace)
	if name := os.Getenv("CACHEBRO_TRACE"); name != "" {
		if err := os.WriteFile(name, []byte(strings.Join(trace, "\n")), 0o644); err != nil {
			t.Error(err)
		}
		if err := os.WriteFile(name+".log", []byte(p.cb("log", "--limit", "100000", "--baselines", p.dir)), 0o644); err != nil {
			t.Error(err)
		}
	}
}

func checkHistory(t *testing.T, p *project, m *model, trace []string) {
	t.Helper()
	texts := map[string]string{}
	history := map[string][]string{}
	for _, e := range p.log("", "--baselines") {
		if e.Hash == "" {
			continue
		}
		if _, ok := texts[e.Hash]; !ok {
			texts[e.Hash] = p.cb("show", "#"+strconv.FormatUint(e.Seq, 10), "--dir", p.dir)
		}
		history[e.name()] = append(history[e.name()], texts[e.Hash])
	}
	for path, want := range m.closed {
		i := 0
		for _, text := range history[path] {
			if i < len(want) && text == want[i] {
				i++
			}
		}
		if i < len(want) {
			var mine []string
			for _, line := range trace {
				if strings.Contains(line, " "+path+" ") {
					mine = append(mine, line)
				}
			}
			t.Errorf("%s: closed content %d of %d is missing: %s\nlog: %s\noperations:\n%s", path, i+1, len(want), brief(want[i]), briefAll(history[path]), strings.Join(tail(mine, 40), "\n"))
		}
	}
	for path, n := range m.files {
		h := history[path]
		if len(h) == 0 || h[len(h)-1] != n.text {
			t.Errorf("%s: the newest version is not the file's content %s", path, brief(n.text))
		}
	}
}

// step does one random operation on the mount and in the model.
func step(m *model, rng *rand.Rand, workers []*worker, p *project) string {
	id := rng.Intn(len(workers))
	path := randomPath(m, rng)
	text := fmt.Sprintf("text %d\n%s", rng.Int31(), strings.Repeat("line of filling\n", rng.Intn(30)))
	if rng.Intn(10) == 0 {
		text = ""
	}
	if rng.Intn(25) == 0 {
		text += strings.Repeat("large\n", 40_000)
	}
	op := []string{"write", "write", "append", "append", "save", "save", "truncate", "rename", "exchange", "link", "unlink", "mkdir", "rmdir", "hold", "poke", "poke", "drop", "movedir"}[rng.Intn(18)]
	n, exists := m.files[path]
	send := func(parts ...string) string {
		for i := 1; i < len(parts); i++ {
			if i == 1 || parts[0] == "rename" || parts[0] == "exchange" || parts[0] == "link" {
				parts[i] = p.path(parts[i])
			}
		}
		return workers[id].do(parts...)
	}
	var result string
	switch op {
	case "write", "append", "save":
		if m.dirs[path] {
			return "skip"
		}
		text = oneLine(text)
		result = send(op, path, text)
		if result != "ok" {
			break
		}
		if op == "save" {
			m.keepAt(path+".tmp~", text)
			m.files[path] = &node{text: text, holder: -1}
			m.keepAt(path, text)
			break
		}
		if !exists {
			n = &node{holder: -1}
			m.files[path] = n
		}
		if op == "append" {
			text = n.text + text
		}
		n.text, n.poked = text, false
		m.keep(n)
	case "truncate":
		if !exists {
			return "skip"
		}
		size := rng.Intn(len(n.text) + 10)
		result = send(op, path, strings.Repeat("x", size))
		if size <= len(n.text) {
			n.text = n.text[:size]
		} else {
			n.text += strings.Repeat("\x00", size-len(n.text))
		}
		if n.holder < 0 { // otherwise it is closed with the held descriptor
			m.keep(n)
		} else {
			n.poked = true
		}
	case "rename", "exchange", "link":
		to := randomPath(m, rng)
		if !exists || m.dirs[to] || to == path {
			return "skip"
		}
		other, there := m.files[to]
		if op == "exchange" && !there || op == "link" && there {
			return "skip"
		}
		result = send(op, path, to)
		if result != "ok" || other == n {
			break
		}
		m.files[to] = n
		if op == "rename" {
			delete(m.files, path)
		} else if op == "exchange" {
			m.files[path] = other
			if !other.poked {
				m.keepAt(path, other.text)
			}
		}
		if !n.poked {
			m.keepAt(to, n.text)
		}
		op += " " + to
	case "unlink":
		if result = send(op, path); result == "ok" {
			delete(m.files, path)
		}
	case "mkdir":
		if !exists && !m.dirs[path] {
			if result = send(op, path); result == "ok" {
				m.dirs[path] = true
			}
		}
	case "rmdir":
		if result = send(op, path); result == "ok" {
			delete(m.dirs, path)
		}
	case "movedir":
		dirs := sortedKeys(m.dirs)
		from := dirs[rng.Intn(len(dirs))]
		to := fmt.Sprintf("m%d", rng.Intn(4))
		if from == "" || m.dirs[to] || m.files[to] != nil || strings.HasPrefix(to+"/", from+"/") {
			return "skip"
		}
		result = send("rename", from, to)
		if result == "ok" {
			moveDir(m, from, to)
		}
		path, op = from, "movedir "+to
	case "hold":
		if !exists || n.holder >= 0 {
			return "skip"
		}
		n.held = p.path(path) + "#" + strconv.Itoa(rng.Int())
		if result = workers[id].do("hold", p.path(path)); result == "ok" {
			n.holder, n.held = id, p.path(path)
			for _, other := range m.files { // the worker keeps one descriptor per path
				if other != n && other.holder == id && other.held == n.held {
					if other.poked {
						m.keep(other)
					}
					other.holder, other.poked = -1, false
				}
			}
		}
	case "poke", "drop":
		if !exists || n.holder < 0 {
			return "skip"
		}
		id = n.holder
		patch := "POKED " + strconv.Itoa(rng.Intn(1000))
		if result = workers[id].do(op, n.held, patch); result != "ok" {
			break
		}
		if op == "poke" {
			n.poked = true
			if len(n.text) > len(patch) {
				n.text = patch + n.text[len(patch):]
			} else {
				n.text = patch
			}
		} else {
			if n.poked {
				m.keep(n)
			}
			n.poked, n.holder = false, -1
		}
	}
	if n = m.files[path]; n != nil {
		result += fmt.Sprintf(" (%d bytes)", len(n.text))
	}
	return fmt.Sprintf("%d: %s %s → %s", id, op, path, result)
}

// oneLine puts a command on one line, as the workers' protocol requires.
func oneLine(text string) string { return strings.ReplaceAll(text, "\n", "\r") }

func moveDir(m *model, from, to string) {
	for path, n := range m.files {
		if rest, ok := strings.CutPrefix(path, from+"/"); ok {
			delete(m.files, path)
			m.files[to+"/"+rest] = n
			if !n.poked {
				m.keepAt(to+"/"+rest, n.text)
			}
		}
	}
	for dir := range m.dirs {
		if dir == from || strings.HasPrefix(dir, from+"/") {
			delete(m.dirs, dir)
			m.dirs[to+strings.TrimPrefix(dir, from)] = true
		}
	}
}

func randomPath(m *model, rng *rand.Rand) string {
	dirs := sortedKeys(m.dirs)
	return filepath.Join(dirs[rng.Intn(len(dirs))], string(rune('a'+rng.Intn(6))))
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

func tail(lines []string, n int) []string {
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return lines
}

// TestModelKeepsOrder checks functions that the model depends on: keepAt, diffMaps and oneLine.
func TestModelKeepsOrder(t *testing.T) {
	m := &model{closed: map[string][]string{}}
	m.keepAt("a", "1")
	m.keepAt("a", "1")
	m.keepAt("a", "2")
	if got := strings.Join(m.closed["a"], ","); got != "1,2" {
		t.Errorf("kept %s", got)
	}
	if d := diffMaps("x", map[string]string{"a": "1"}, "y", map[string]string{"a": "2"}); d == "" {
		t.Error("a difference was not seen")
	}
	if !bytes.Equal([]byte(oneLine("a\nb")), []byte("a\rb")) {
		t.Error("oneLine left a newline")
	}
}
