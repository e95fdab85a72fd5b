package mcp

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestAutoReindex searches a project that is not mounted. A search finds everything that was
// written since the last one.
func TestAutoReindex(t *testing.T) {
	l := liveProject(t, files{"first.go": "package p\n"})
	looks := l.connect(ProfileDefault)
	write(t, filepath.Join(l.dir, "second.go"), "package p\n\nvar writtenBeside = 2\n")
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		text := looks.ok("search", map[string]any{"pattern": "writtenBeside"})
		if strings.Contains(text, "second.go:3: var writtenBeside = 2") {
			break
		}
		// The scan for changes may take longer than a search waits for it.
		if !strings.Contains(text, "takes longer") || time.Now().After(end) {
			t.Fatalf("what was written beside is not found: %s", text)
		}
	}
}

// If one file has many hits, its name is printed once.
func TestSearchGroupsByPath(t *testing.T) {
	l := liveProject(t, files{"src/some/where/deep/many.go": "package p\n\n" + strings.Repeat("var manyTimes = 1 // a line\n", 40)})
	c := l.connect(ProfileDefault)
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		text := c.ok("search", map[string]any{"pattern": "manyTimes", "limit": 40})
		if strings.HasPrefix(text, "cachebro: lines are grouped by path\n") && strings.Contains(text, "\nsrc/some/where/deep/many.go\n3: var manyTimes = 1 // a line\n4: var") &&
			strings.Count(text, "many.go") == 1 && strings.Count(text, "manyTimes") == 40 {
			break
		}
		if strings.Count(text, "manyTimes") >= 40 || time.Now().After(end) {
			t.Fatal(text)
		}
	}
}

// The smallest profiles do not list all arguments that search accepts: a pattern can be declared a
// regular expression by mode, and path restricts the search.
func TestSearchArgumentsThatAreNotListed(t *testing.T) {
	l := liveProject(t, files{"a/one.txt": "needle 12\n", "b/two.txt": "needle 34\nneedle xy\n"})
	c := l.connect(ProfileDefault)
	for _, tc := range []struct {
		args map[string]any
		hits []string
	}{
		{map[string]any{"pattern": `needle \d+`, "mode": "regex"}, []string{"a/one.txt:1", "b/two.txt:1"}},
		{map[string]any{"pattern": `needle \d+`, "regex": true}, []string{"a/one.txt:1", "b/two.txt:1"}},
		{map[string]any{"pattern": "needle", "path": "b"}, []string{"b/two.txt:1", "b/two.txt:2"}},
	} {
		text := c.ok("search", tc.args)
		for _, hit := range tc.hits {
			if !strings.Contains(text, hit+":") {
				t.Errorf("%v: %s is missing: %s", tc.args, hit, text)
			}
		}
		if n := strings.Count(text, ".txt:"); n != len(tc.hits) {
			t.Errorf("%v: %d hits, want %d: %s", tc.args, n, len(tc.hits), text)
		}
	}
	// "no hits" would say that the text is not there.
	if text := c.bad("search", map[string]any{"pattern": "needle", "path": "c"}); !strings.Contains(text, "no such file: c") {
		t.Error(text)
	}
}
