package mcp

import (
	"strings"
	"testing"
)

// A model that wrote the answer "unchanged" over a file lost 499 lines of it.
func TestOwnAnswersAreNoFiles(t *testing.T) {
	const stub = "[unchanged · 499 lines · ~4.1k saved]"
	dir := project(t, files{"a.txt": "one\n", "doc.md": stub + "\n"})
	p := connect(t, Options{Root: dir})
	for tool, args := range map[string]map[string]any{
		"write_file": {"path": "a.txt", "content": stub},
		"edit_file":  {"path": "a.txt", "old_string": "one", "new_string": "two\n" + stub + "\n"},
	} {
		if got := p.bad(tool, args); !strings.Contains(got, "cachebro's answer") || !strings.Contains(got, "hint:") {
			t.Errorf("%s: %s", tool, got)
		}
	}
	if read(t, dir+"/a.txt") != "one\n" {
		t.Errorf("a.txt: %q", read(t, dir+"/a.txt"))
	}
	p.ok("edit_file", map[string]any{"path": "doc.md", "old_string": stub, "new_string": stub + "\nmore"})
}
