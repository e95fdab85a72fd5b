package mcp

import (
	"os"
	"strings"
	"testing"
)

// A name in another Unicode normal form differs in many bytes but looks the same.
func TestNearNames(t *testing.T) {
	dir := project(t, files{"e\u0301te\u0301.txt": "a\n", "日本語.md": "b\n", "Makefile": "c\n"})
	p := connect(t, Options{Root: dir})
	for asked, want := range map[string]string{"\u00e9t\u00e9.txt": "e\u0301te\u0301.txt", "日本誤.md": "日本語.md", "makefile": "Makefile", "Makefil": "Makefile"} {
		if got := p.bad("read_file", map[string]any{"path": asked}); !strings.Contains(got, "did you mean "+quote(want)) {
			t.Errorf("%s: %s", asked, got)
		}
	}
}

func TestPathsByOtherForms(t *testing.T) {
	dir := project(t, files{"a b.txt": "one\n"})
	p := connect(t, Options{Root: dir})
	if got := p.ok("read_file", map[string]any{"path": "file://" + strings.ReplaceAll(dir, " ", "%20") + "/a%20b.txt"}); got != "one\n" {
		t.Errorf("a file URL: %q", got)
	}
	t.Setenv("HOME", dir)
	if got := p.ok("read_file", map[string]any{"path": "~/a b.txt", "force": true}); got != "one\n" {
		t.Errorf("below the home directory: %q", got)
	}
	if err := os.Mkdir(dir+"/~", 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/~/x", "two\n")
	if got := p.ok("read_file", map[string]any{"path": "./~/x"}); got != "two\n" {
		t.Errorf("a directory of that name: %q", got)
	}
}
