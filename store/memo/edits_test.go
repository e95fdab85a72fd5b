//go:build linux && (amd64 || arm64)

package memo

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	n, err := strconv.Atoi(cmp.Or(os.Getenv(name), fmt.Sprint(otherwise)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// edits makes random changes and, after each, compares what a replay would print with what the
// command prints. It returns the number of replays, and how often the command's output was the same
// as before. A perfect memo would have replayed the output each of these times.
func edits(t *testing.T, b *bench, n int, plain func(string) string, edit func(*rand.Rand), args ...string) (replayed, possible int) {
	t.Helper()
	together := func(o *Options) { o.Split = false }
	seed := number(t, "CACHEBRO_SEED", 1)
	r := rand.New(rand.NewPCG(uint64(seed), 7))
	out, was := b.run(together, args...)
	rec, before := b.record(out), plain(was)
	for i := range n {
		edit(r)
		ok, why, _ := rec.StillValid(b.root, time.Now())
		out, now := b.run(together, args...)
		if plain(now) == before && out.Err == nil {
			possible++
		}
		switch {
		case ok && (plain(now) != plain(text(rec.Output)) || out.Err != nil):
			t.Fatalf("seed %d, edit %d: stale: a replay says\n%s\nthe command\n%s", seed, i, text(rec.Output), now)
		case ok:
			replayed++
		case testing.Verbose():
			t.Logf("edit %d: run again: %s", i, why)
		}
		if !ok {
			rec = b.record(out)
		}
		before = plain(now)
	}
	t.Logf("%d edits: %d replays of %d calls that said the same again (%.0f %%)", n, replayed, possible, 100*float64(replayed)/float64(max(possible, 1)))
	return replayed, possible
}

func TestRandomEditsAreNeverStale(t *testing.T) {
	b := newBench(t, map[string]string{"a.txt": "a\n", "b.txt": "b\n", "d/c.txt": "c\n", "d/n.md": "n\n", "e/x": "x\n"})
	b.write("run.sh", "cat *.txt d/*.txt\nfor f in e/*; do [ -f $f ] && head -1 $f; done\n[ -e flag ] && echo flag\n[ a.txt -nt b.txt ] && echo newer\nreadlink l\ncat l\ntrue\n")
	names := []string{"a.txt", "b.txt", "d/c.txt", "d/new.txt", "d/n.md", "e/x", "e/y", "flag", "unread", "deep/er/unread"}
	_, _ = edits(t, b, number(t, "CACHEBRO_MEMO_EDITS", 60), func(s string) string { return s }, func(r *rand.Rand) {
		name := names[r.IntN(len(names))]
		path := filepath.Join(b.root, name)
		switch r.IntN(8) {
		case 0, 1, 2:
			b.write(name, strings.Repeat(string(rune('a'+r.IntN(3)))+"\n", 1+r.IntN(2)))
		case 3:
			_ = os.Remove(path)
		case 4:
			_ = os.Chtimes(path, time.Now(), time.Now())
		case 5:
			_ = os.Remove(filepath.Join(b.root, "l"))
			_ = os.Symlink(names[r.IntN(3)], filepath.Join(b.root, "l"))
		case 6:
			b.write("tmp", "same\n")
			_ = os.Rename(filepath.Join(b.root, "tmp"), path)
		case 7:
			_ = os.Rename(path, filepath.Join(b.root, names[r.IntN(len(names))]))
		}
	}, "sh", "run.sh")
}

// goTimes matches the times that go test prints, and its note that a result was cached.
var goTimes = regexp.MustCompile(`\t(\(cached\)|[0-9.]+s)`)

// goCache returns the cache of the user who runs the tests, because filling an empty cache would
// take a minute.
func goCache(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func TestRandomEditsOfAModule(t *testing.T) {
	b := newBench(t, map[string]string{
		"go.mod": "module m\n\ngo 1.26\n", "README.md": "a\n", "doc/guide.md": "g\n", "a/notes.txt": "n\n", "a/testdata/new": "n\n",
		"a/a.go":       "package a\n\nfunc Add(x, y int) int { return x + y }\n",
		"a/a_test.go":  "package a\n\nimport (\n\t\"os\"\n\t\"path/filepath\"\n\t\"testing\"\n)\n\nfunc TestAdd(t *testing.T) {\n\tall, _ := filepath.Glob(\"testdata/*\")\n\tfor _, f := range all {\n\t\tb, _ := os.ReadFile(f)\n\t\tt.Log(f, string(b))\n\t}\n\tif Add(1, 2) != 3 || os.Getenv(\"WRONG\") != \"\" {\n\t\tt.Fatal(Add(1, 2))\n\t}\n}\n",
		"a/testdata/x": "x\n", "b/b.go": "package b\n\nimport _ \"m/a\"\n",
		"c/c_test.go": "package c\n\nimport (\n\t\"testing\"\n\n\t\"m/a\"\n)\n\nfunc TestC(t *testing.T) {\n\tif a.Add(2, 2) != 4 {\n\t\tt.Fatal()\n\t}\n}\n",
	})
	b.env = append(b.env, "GOCACHE="+goCache(t), "GOFLAGS=-buildvcs=false -mod=mod", "GOTOOLCHAIN=local", "GOPROXY=off", "GOTELEMETRY=off")
	bodies := map[string][]string{
		"a/a.go":       {"package a\n\nfunc Add(x, y int) int { return x + y }\n", "package a\n\n// Add adds.\nfunc Add(x, y int) int { return y + x }\n", "package a\n\nfunc Add(x, y int) int { return x - y }\n"},
		"a/testdata/x": {"x\n", "y\n"}, "a/testdata/new": {"n\n"},
		"b/b.go": {"package b\n\nimport _ \"m/a\"\n", "package b\n\nimport (\n\t_ \"m/a\"\n\t_ \"os\"\n)\n", "package b\n\nfunc {\n"}, "b/new_test.go": {"package b\n\nimport \"testing\"\n\nfunc TestB(*testing.T) {}\n"},
		"README.md": {"a\n", "b\n"}, "doc/guide.md": {"g\n", "h\n"}, "a/notes.txt": {"n\n"},
	}
	names := []string{"a/a.go", "a/testdata/x", "a/testdata/new", "b/b.go", "b/new_test.go", "README.md", "README.md", "doc/guide.md", "doc/guide.md", "a/notes.txt"}
	replayed, _ := edits(t, b, number(t, "CACHEBRO_MEMO_GO_EDITS", 8), func(s string) string { return goTimes.ReplaceAllString(s, "") }, func(r *rand.Rand) {
		name := names[r.IntN(len(names))]
		if texts := bodies[name]; r.IntN(10) > 0 || name == "a/a.go" {
			b.write(name, texts[r.IntN(len(texts))])
		} else {
			_ = os.Remove(filepath.Join(b.root, name))
		}
	}, "go", "test", "./...")
	if replayed == 0 {
		t.Error("nothing was ever replayed")
	}
}
