package text

import (
	"strings"
	"testing"
	"time"
)

func TestMatchGlob(t *testing.T) {
	for _, c := range []struct {
		glob, path string
		want       bool
	}{
		{"*.go", "a.go", true},
		{"*.go", "x/a.go", false},
		{"**/*.go", "x/y/a.go", true},
		{"src/**", "src", true},
		{"src/**/b", "src/b", true},
		{"*.{ts,tsx,{m,c}js}", "a.cjs", true},
		{"[!a]", "b", true},
		{"*", "abc", true},
		{"a?", "ab", true},
		{"**", "a/b", true},
		{"{a,b}", "b", true},
		{"[", "[", false},
		{`\{a,b}`, "{a,b}", true},
	} {
		if got := MatchGlob(c.glob, c.path); got != c.want {
			t.Errorf("%q matches %q: %v", c.glob, c.path, got)
		}
		if c.want && !(covers(c.glob, c.path) && covers(c.glob, c.path+"/below")) {
			t.Errorf("%q does not cover %q and what is below", c.glob, c.path)
		}
	}
	for _, bad := range []string{"[", "{a", strings.Repeat("{a,b}", 9), strings.Repeat("a", 5000)} {
		if ValidGlob(bad) {
			t.Errorf("%.30q counts as valid", bad)
		}
	}
	if !ValidGlob(`**/*.{js,jsx,ts,tsx,mjs,cjs}`) || !ValidGlob(strings.Repeat("{a,b}", 8)) {
		t.Error("a glob that people write is not valid")
	}
}

// TestHostile: a glob comes from a repository's cachebro.yml or a request. Each of these globs took
// more than a minute when globs were matched recursively.
func TestHostile(t *testing.T) {
	path := strings.Repeat("a/", 60) + "a"
	name := strings.Repeat("a", 250)
	for _, g := range []string{
		strings.Repeat("**/", 30) + "b",
		strings.Repeat("**/a/", 30) + "b",
		strings.Repeat("*a", 100) + "b",
		strings.Repeat("{a,aa}", 60) + "b",
		strings.Repeat("{*a,*aa}", 60) + "b",
		strings.Repeat("{", 2000) + strings.Repeat(",a}", 700),
	} {
		done := make(chan bool)
		go func() {
			MatchGlob(g, path)
			MatchGlob(g, name)
			ValidGlob(g)
			close(done)
		}()
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Errorf("%.20q… of %d bytes takes longer than a minute", g, len(g))
		}
	}
}

func TestGlobSelects(t *testing.T) {
	for _, c := range []struct {
		glob, path string
		want       bool
	}{
		{"*.go", "a.go", true}, {"*.go", "a/b.go", true}, {"*.go", "a/b.js", false}, {"*.go", "gen.go/x", true},
		{"a/*.go", "a/b.go", true}, {"a/*.go", "a/c/b.go", false}, {"/*.go", "a.go", true}, {"/*.go", "a/b.go", false},
		{"**/b.go", "a/c/b.go", true}, {"a/**", "a/c/b.go", true}, {"a/**/b.go", "a/b.go", true}, {"a/**/b.go", "b.go", false},
		{"*.{js,ts}", "a/b.ts", true}, {"d*/", "x/dir/f", true},
		{"app/[id]", "app/[id]/p.ts", true}, {"app/[id]", "app/i/p.ts", true}, {"[id]", "app/[id]/p.ts", true}, {"app/[id]", "app/[id]2", false},
	} {
		if got := GlobSelects(c.glob, c.path); got != c.want {
			t.Errorf("%q selects %q: %v", c.glob, c.path, got)
		}
	}
}
