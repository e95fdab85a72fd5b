package daemon

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cachebro/store/leaf/limits"
	"cachebro/store/wire"
)

// TestTooLargeToSearch checks that an answer names each text above the limit that could have
// matched, but no other files, however large. A path that was a file and is now a directory or a
// link adds nothing.
func TestTooLargeToSearch(t *testing.T) {
	p := newProject(t)
	p.write("small.txt", "the needle\n")
	p.write("log.txt", strings.Repeat("hay and needle\n", 1000))
	p.write("image.bin", "\x00\x01needle")
	p.write("was.txt", "needle before\n")
	for _, name := range []string{"log.txt", "image.bin"} {
		if err := os.Truncate(filepath.Join(p.root, name), limits.Content+1); err != nil {
			t.Fatal(err)
		}
	}
	p.start()
	c := p.dial("cli")
	q := wire.SearchQuery{Pattern: "needle", Mode: wire.SearchExact}
	var a wire.SearchAnswer
	eventually(t, "both files are found", func() bool {
		a = ask[wire.SearchAnswer](p, c, wire.MSearch, q)
		return len(a.Hits) == 2 && strings.Contains(a.NotSearched, "too large")
	})
	if a.NotSearched != `1 binary ("image.bin"), 1 too large ("log.txt")` {
		t.Errorf("%q", a.NotSearched)
	}
	was := filepath.Join(p.root, "was.txt")
	for _, put := range []func() error{func() error { return os.Mkdir(was, 0o755) }, func() error { return os.Symlink("small.txt", was) }} {
		if err := os.Remove(was); err != nil {
			t.Fatal(err)
		}
		if err := put(); err != nil {
			t.Fatal(err)
		}
		q.NoRefresh = true
		if a = ask[wire.SearchAnswer](p, c, wire.MSearch, q); len(a.Hits) != 1 || string(a.Hits[0].Path) != "small.txt" {
			t.Errorf("%+v", a.Hits)
		}
	}
}

// A search used to answer "no hits" without a word about files that it never shows: those that look
// like secrets, and those in an ignored file or directory that the query names.
func TestUnshownFilesAreNamed(t *testing.T) {
	p := newProject(t)
	p.write(".gitignore", "*.log\nbuild/\n")
	p.write("credentials.go", "needle\n")
	p.write("a.log", "needle\n")
	p.write("build/b.txt", "needle\n")
	p.write("src/c.txt", "hay\n")
	if out, err := exec.Command("git", "init", "-q", p.root).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v %s", err, out)
	}
	p.start()
	c := p.dial("cli")
	for path, want := range map[string]string{
		"": `1 secret ("credentials.go")`, "credentials.go": `1 secret ("credentials.go")`, "src": "", "src/c.txt": "",
		"a.log": `1 ignored ("a.log")`, "build": `1 ignored ("build")`, "build/b.txt": `1 ignored ("build/b.txt")`,
	} {
		for _, mode := range []string{wire.SearchExact, wire.SearchText, wire.SearchSymbols, wire.SearchFiles, wire.SearchHistory} {
			eventually(t, "the files are known", func() bool {
				a := ask[wire.SearchAnswer](p, c, wire.MSearch, wire.SearchQuery{Pattern: "needle", Path: []byte(path), Mode: mode})
				return len(a.Hits) == 0 && a.NotSearched == want
			})
		}
	}
}
