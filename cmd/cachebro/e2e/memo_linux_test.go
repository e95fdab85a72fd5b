package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cachebro/scripts/testkit/redistest"
)

// The output of a command in one clone is replayed in a clone on another machine if it depends on
// contents only. If it depends on times, it is not shared, and both machines say so.
func TestMemoInAnotherClone(t *testing.T) {
	redis, err := redistest.Start(t.TempDir())
	if errors.Is(err, redistest.ErrNone) && os.Getenv("CACHEBRO_NEED_REDIS") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(redis.Stop)
	files := map[string]string{"go.mod": "module m\n\ngo 1.21\n", "m.go": "package m\n\nfunc F() int { return 1 }\n", "testdata/x.txt": "hello\n",
		"m_test.go":  "package m\n\nimport \"testing\"\n\nfunc TestF(t *testing.T) {\n\tif F() != 1 {\n\t\tt.Fatal()\n\t}\n}\n",
		"dated/d.go": "package dated\n", "dated/d_test.go": "package dated\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestD(t *testing.T) {\n\tif _, err := os.Stat(\"../testdata/x.txt\"); err != nil {\n\t\tt.Fatal(err)\n\t}\n}\n"}
	p := newProject(t, files)
	p.env = append(p.env, "CACHEBRO_REDIS="+redis.URL(), "GOCACHE="+filepath.Join(p.base, "home", "go-build"), "GOFLAGS=", "GOTOOLCHAIN=local", "GOENV=off")
	p.mount()
	p.scanned()
	if out := p.within("memo", "--explain", "--", "go", "test", "."); !strings.Contains(out, "it has not been run yet") {
		t.Fatal(out)
	}
	first := p.within("memo", "--", "go", "test", ".")
	p.within("memo", "--", "go", "test", "./...")
	p.within("memo", "--ignore-times", "--", "go", "test", "./...")
	stays := "it is valid only where it ran, because it depends on times or inode numbers of testdata/x.txt, which dated.test may show (--ignore-times)"
	p.eventually("it can be repeated here", func() string {
		p.within("memo", "--", "go", "test", "./...") // the first access changed an access time
		out := p.within("memo", "--explain", "--", "go", "test", "./...")
		if strings.Contains(out, "would be repeated") && strings.Contains(out, stays) {
			return ""
		}
		return out
	})

	// This makes another machine: it has none of the first machine's state, and its inodes and
	// times differ.
	p.umount()
	for _, name := range []string{"project", "state", "home"} {
		if err := os.Rename(filepath.Join(p.base, name), filepath.Join(p.base, name+"-1")); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(p.base, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		p.write(name, text)
	}
	p.mount()
	p.scanned()
	session := p.command("memo", "--", "go", "test", ".") // an agent's session, which the other machine does not know
	session.Dir, session.Env = p.dir, append(p.env, "CLAUDE_CODE_SESSION_ID=another")
	if out, err := session.CombinedOutput(); err != nil || string(out) != first {
		t.Errorf("in another clone: %v, %q, and it was %q", err, out, first)
	}
	if _, err := os.Stat(filepath.Join(p.base, "home", "go-build")); err == nil {
		t.Error("the tests were run")
	}
	if out := p.within("memo", "--explain", "--ignore-times", "--", "go", "test", "./..."); !strings.Contains(out, "would be repeated") {
		t.Errorf("with times that do not count: %s", out)
	}
	if out := p.within("memo", "--explain", "--", "go", "test", "./..."); !strings.Contains(out, "would be run: "+stays) {
		t.Errorf("what depends on times: %s", out)
	}
	p.write("m.go", "package m\n\nfunc F() int { return 2 - 1 }\n")
	if out := p.within("memo", "--explain", "--", "go", "test", "."); !strings.Contains(out, "would be run: m.go has changed") {
		t.Errorf("of another text: %s", out)
	}
}
