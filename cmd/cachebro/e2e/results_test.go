package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"cachebro/store/wire"
)

// Other processes write on the mount, close late, rename and delete. A search returns what the
// files contain, whether its answer was cached or not. A wrong answer in the cache would be noticed,
// because it would stay there until the next change.
func TestKeptSearchesUnderRandomWrites(t *testing.T) {
	p := newProject(t, map[string]string{"a.txt": "alpha\n", "d/b.txt": "beta\n", "d/e/c.txt": "gamma\nalpha\n"})
	p.mount()
	paths := wire.Paths{RuntimeDir: filepath.Join(p.base, "run"), StateHome: filepath.Join(p.base, "state"), Home: filepath.Join(p.base, "home")}
	version := strings.Fields(p.cb("version"))
	c, err := wire.Dial(context.Background(), paths, wire.Hello{Version: version[1], Client: "cli", Root: p.dir}, wire.Timeouts{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	words, names := []string{"alpha", "beta", "gamma"}, []string{"a.txt", "d/b.txt", "d/e/c.txt", "d/e/new.txt", "f/g.txt"}
	scopes := []string{"", "d", "d/e", "a.txt"}
	search := func(word, scope string) int {
		t.Helper()
		a, err := wire.Call[wire.SearchAnswer](context.Background(), c, wire.MSearch, wire.SearchQuery{Pattern: word, Mode: wire.SearchExact, Path: []byte(scope), Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		return a.Lines
	}
	// said counts a word in the files. It skips a file that is still open for the first time,
	// because no search finds such a file before it is closed.
	said := func(word, scope string, skip string) (n int) {
		for _, name := range names {
			if name != skip && (scope == "" || name == scope || strings.HasPrefix(name, scope+"/")) {
				text, _ := os.ReadFile(filepath.Join(p.dir, name))
				n += strings.Count(string(text), word)
			}
		}
		return n
	}
	seed := uint64(1)
	if s := os.Getenv("CACHEBRO_SEED"); s != "" {
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	r := rand.New(rand.NewPCG(seed, 3))
	check := func(step int, skip string) {
		t.Helper()
		for range 3 {
			word, scope := words[r.IntN(len(words))], scopes[r.IntN(len(scopes))]
			for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
				got, want := search(word, scope), said(word, scope, skip)
				if got == want {
					break
				}
				if time.Now().After(end) { // the spool may be a moment behind on a busy machine
					t.Fatalf("seed %d, step %d: %q in %q: %d lines, the files have %d", seed, step, word, scope, got, want)
				}
			}
		}
	}
	sh := func(script string) {
		t.Helper()
		cmd := exec.Command("sh", "-c", script)
		cmd.Dir = p.dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v %s", script, err, out)
		}
	}
	for step := range 60 {
		name := names[r.IntN(len(names))]
		_, err := os.Stat(filepath.Join(p.dir, name))
		made := err != nil
		switch text := words[r.IntN(len(words))]; r.IntN(6) {
		case 0, 1:
			sh(fmt.Sprintf("mkdir -p $(dirname %s) && echo %s > %[1]s", name, text))
		case 2:
			if !made {
				sh("echo " + text + " >> " + name)
			}
		case 3:
			if made {
				continue
			}
			f, err := os.OpenFile(filepath.Join(p.dir, name), os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // check between two writes through one open file
				if _, err := f.WriteString(text + "\n"); err != nil {
					t.Fatal(err)
				}
				check(step, "")
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		case 4:
			sh("rm -f " + name)
		case 5:
			if !made {
				sh("mv " + name + " " + names[r.IntN(3)] + " 2>/dev/null || :")
			}
		}
		check(step, "")
	}
	st, err := wire.Call[wire.Status](context.Background(), c, wire.MStatus, wire.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	var n struct {
		Tools map[string]struct{ Hits, Misses int }
	}
	if err := json.Unmarshal(st.Results.Stats, &n); err != nil || n.Tools["search"].Hits+n.Tools["search"].Misses == 0 {
		t.Errorf("nothing was asked: %s %v", st.Results.Stats, err)
	}
	t.Logf("%s", st.Results.Stats) // how many were cached depends on how busy the machine is
}
