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

// While other processes write on the mount, a cached bundle equals one that is built from scratch.
// A reader gets "unchanged" only if it has received an equal bundle. The counts in a bundle agree
// with the files.
func TestKeptBundlesUnderRandomWrites(t *testing.T) {
	p := newProject(t, map[string]string{
		"go.mod": "module example.org/app\n", "a/a.go": "package a\n", "b/b.go": "package b\n\nimport _ \"example.org/app/a\"\n",
		"docs/a.md": "# A\n\nSee a/a.go.\n", "cachebro.yml": "nodes:\n  g: {source: [a/, docs/a.md]}\n",
	})
	p.mount()
	paths := wire.Paths{RuntimeDir: filepath.Join(p.base, "run"), StateHome: filepath.Join(p.base, "state"), Home: filepath.Join(p.base, "home")}
	c, err := wire.Dial(context.Background(), paths, wire.Hello{Version: strings.Fields(p.cb("version"))[1], Client: "cli", Root: p.dir}, wire.Timeouts{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	seed := uint64(1)
	if s := os.Getenv("CACHEBRO_SEED"); s != "" {
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	r := rand.New(rand.NewPCG(seed, 5))
	ask := func(q wire.ContextRequest) (wire.ContextAnswer, string) {
		t.Helper()
		var a wire.ContextAnswer
		text, err := c.Call(context.Background(), wire.MContext, q, nil, &a)
		if err != nil {
			t.Fatalf("%+v: %v", q, err)
		}
		return a, string(text)
	}
	// size returns the present size of the files in a directory's subtree.
	size := func(dir string) string {
		out, err := exec.Command("sh", "-c", "cd "+p.dir+" && find "+dir+" -type f | wc -l && find "+dir+" -type f -exec cat {} + | wc -l").Output()
		if err != nil {
			t.Fatal(err)
		}
		n := strings.Fields(string(out))
		say := func(n, what string) string {
			if n == "1" {
				return "1 " + what
			}
			return n + " " + what + "s"
		}
		return say(n[0], "file") + ", " + say(n[1], "line")
	}
	refs := []string{"a/", "a/a.go", "b/", "docs/a.md", "g", "./"}
	held := map[string]string{} // the etag that the reader received
	kept, stubs := 0, 0
	check := func(step int) {
		t.Helper()
		dir := refs[2*r.IntN(2)]
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			_, text := ask(wire.ContextRequest{Ref: dir})
			var b struct{ Size string }
			if err := json.Unmarshal([]byte(text), &b); err != nil {
				t.Fatal(err)
			}
			want := size(dir)
			if b.Size == want {
				break
			}
			if time.Now().After(end) { // the spool may be a moment behind on a busy machine
				t.Fatalf("seed %d, step %d: %s has %s, the bundle says %s", seed, step, dir, want, b.Size)
			}
		}
		for range 2 {
			ref := refs[r.IntN(len(refs))]
			before, _ := ask(wire.ContextRequest{Ref: ref, Anew: true})
			mine, _ := ask(wire.ContextRequest{Ref: ref, Reader: wire.Reader{Session: "s"}})
			a, text := ask(wire.ContextRequest{Ref: ref})
			after, anew := ask(wire.ContextRequest{Ref: ref, Anew: true})
			if before.Etag == after.Etag { // nothing was ingested in between
				if text != anew {
					t.Fatalf("seed %d, step %d: %s: kept\n%s\nmade anew\n%s", seed, step, ref, text, anew)
				}
				if mine.Etag != anewEtag(anew) {
					t.Fatalf("seed %d, step %d: %s: the reader got %s, want %s", seed, step, ref, mine.Etag, anew)
				}
			}
			if mine.Kind == wire.ReadUnchanged {
				stubs++
				if held[ref] != mine.Etag {
					t.Fatalf("seed %d, step %d: %s: unchanged, but the reader holds %s", seed, step, ref, held[ref])
				}
			}
			if a.Kept {
				kept++
			}
			held[ref] = mine.Etag
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
	names := []string{"a/x.go", "b/y.go", "docs/z.md", "other.txt"}
	texts := []string{"package x", "import \"example.org/app/b\"", "See b/y.go and a/x.go.", "func F() {}"}
	check(-1)
	for step := range 24 {
		name, text := names[r.IntN(len(names))], texts[r.IntN(len(texts))]
		switch r.IntN(6) {
		case 0, 1:
			sh(fmt.Sprintf("printf '%%s\\n' '%s' > %s", text, name))
		case 2:
			sh(fmt.Sprintf("printf '%%s\\n' '%s' >> %s", text, name))
		case 3:
			sh("rm -f " + name)
		case 4:
			sh("mv " + name + " " + names[r.IntN(3)] + " 2>/dev/null || :")
		case 5:
			sh(fmt.Sprintf("printf 'nodes:\\n  g: {source: [a/, %s], summary: Step %d.}\\n' > cachebro.yml", name, step))
		}
		check(step)
	}
	t.Logf("%d kept, %d unchanged", kept, stubs)
	if kept == 0 {
		t.Error("no bundle was kept: nothing was tried")
	}
	// When nothing changes, the reader gets "unchanged", perhaps only after a while on a busy
	// machine.
	for end := time.Now().Add(60 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if a, _ := ask(wire.ContextRequest{Ref: "a/", Reader: wire.Reader{Session: "s"}}); a.Kind == wire.ReadUnchanged {
			break
		}
		if time.Now().After(end) {
			t.Fatal("a reader is never told that a bundle is unchanged")
		}
	}
	// If a session reads one file before it writes another, the two are linked in both directions.
	sh("CLAUDE_CODE_SESSION_ID=s9 sh -c 'cat docs/a.md > /dev/null; echo more > b/made.txt'")
	for end := time.Now().Add(60 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		of := ""
		if text, err := c.Call(context.Background(), wire.MContext, wire.ContextRequest{Ref: "b/made.txt", Depth: 1}, nil, nil); err == nil {
			of = string(text) // on an error, the file has not been recorded yet
		}
		_, from := ask(wire.ContextRequest{Ref: "docs/a.md", Depth: 1})
		if strings.Contains(of, `{"ref":"docs/a.md","kind":"file","edges":"read before writing"`) && strings.Contains(from, `{"ref":"b/made.txt","kind":"file","edges":"written after reading"`) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("no edge between them:\n%s\n%s", of, from)
		}
	}
}

func anewEtag(text string) string {
	var b struct{ Etag string }
	_ = json.Unmarshal([]byte(text), &b)
	return b.Etag
}
