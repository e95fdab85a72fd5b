package mcp

import (
	"strings"
	"testing"
)

// A model once wrote the answer "unchanged" over a file of 499 lines. Now text that we gave to the
// model as an answer is refused, even a diff without its first line. A text that only looks like an
// answer is written.
func TestOwnAnswersAreNoFiles(t *testing.T) {
	const like = "[unchanged · 7 lines · ~3 saved]"
	before := numbered(499, "line")
	l := liveProject(t, files{"a.txt": before, "doc.md": like + "\n"})
	p := connect(t, Options{Root: l.dir, Dial: l.dial, Reader: ReaderConnection, Small: 1 << 30})
	p.ok("read_file", at("a.txt"))
	stub := p.ok("read_file", at("a.txt"))
	if !strings.HasPrefix(stub, "[unchanged · 499 lines") {
		t.Fatal(stub)
	}
	now := strings.Replace(before, "line 9:", "line nine:", 1)
	write(t, l.dir+"/a.txt", now)
	diff := p.ok("read_file", at("a.txt"))
	_, body, ok := strings.Cut(diff, "\n")
	if !ok || !strings.HasPrefix(body, "@@ -") {
		t.Fatal(diff)
	}
	for what, given := range map[string]string{"stub": stub, "stub among others": "x\n  " + stub + "\ny\n", "diff": diff, "diff without its first line": body} {
		for tool, args := range map[string]map[string]any{
			"write_file": {"path": "a.txt", "content": given},
			"edit_file":  {"path": "a.txt", "old_string": "line nine:", "new_string": given},
		} {
			if got := p.bad(tool, args); !strings.Contains(got, "cachebro's answer") || !strings.Contains(got, "hint:") {
				t.Errorf("%s by %s: %s", what, tool, got)
			}
		}
	}
	if read(t, l.dir+"/a.txt") != now {
		t.Errorf("a.txt: %q", read(t, l.dir+"/a.txt"))
	}
	p.ok("edit_file", map[string]any{"path": "doc.md", "old_string": like, "new_string": like + "\nmore"})
	p.ok("write_file", map[string]any{"path": "other.md", "content": "# Answers\n\n" + like + "\n[changed · +1 -1 since your read · 9 -> 9 lines]\n@@ -1,2 +1,2 @@\n"})
	p.ok("write_file", map[string]any{"path": "made.diff", "content": "--- a/a.txt\n+++ b/a.txt\n" + body})
}
