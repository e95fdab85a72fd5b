package mcp

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"cachebro/store/leaf/text"
	"cachebro/store/tokens"
)

// A long file is sent in pages that together give the file. None is above the limit, and each names
// the next.
func TestPages(t *testing.T) {
	var b strings.Builder
	for i := range 9000 {
		fmt.Fprintf(&b, "line %d of a long file with some words in it\n", i)
	}
	long := strings.Repeat("x", 300_000)
	dir := project(t, files{"big.txt": b.String(), "one.js": long, "mixed": "a\n" + long + "\nb\n"})
	p := connect(t, Options{Root: dir})
	var got strings.Builder
	next := regexp.MustCompile(`^\[\.\.\. lines \d+-\d+ of 9000\. next: read_file path=big\.txt offset=(\d+)\]$`)
	args := map[string]any{"path": "big.txt"}
	for pages := 0; ; pages++ {
		if pages > 20 {
			t.Fatal("no end of pages")
		}
		r := p.tool("read_file", args)
		if n := tokens.Estimate([]byte(r.Content[0].Text)); n > 25_000 {
			t.Errorf("page of %d tokens", n)
		}
		got.WriteString(r.Content[0].Text)
		if len(r.Content) == 1 {
			break
		}
		m := next.FindStringSubmatch(r.Content[1].Text)
		if m == nil {
			t.Fatalf("note %q", r.Content[1].Text)
		}
		args["offset"] = m[1]
	}
	if got.String() != b.String() {
		t.Error("the pages do not join to the file")
	}
	r := p.tool("read_file", map[string]any{"path": "big.txt", "offset": 8000, "limit": 5})
	if len(r.Content) != 1 || strings.Count(r.Content[0].Text, "\n") != 5 {
		t.Errorf("a short range of a long file: %+v", r)
	}
	r = p.tool("read_file", map[string]any{"path": "one.js"})
	if n := len(r.Content[0].Text); n == 0 || n > surelyFits(maxTokens) || len(r.Content) < 2 || !strings.Contains(r.Content[1].Text, "line 1 of one.js: bytes 0-") {
		t.Errorf("one long line: %d bytes, %+v", n, r.Content[1:])
	}
	r = p.tool("read_file", map[string]any{"path": "mixed"})
	if r.Content[0].Text != "a\n" || !strings.Contains(r.Content[1].Text, "offset=2") {
		t.Errorf("before a long line: %q %+v", r.Content[0].Text, r.Content[1:])
	}
	if r = p.tool("read_file", map[string]any{"path": "mixed", "offset": 3}); r.Content[0].Text != "b\n" {
		t.Errorf("after a long line: %q", r.Content[0].Text)
	}
	text := p.ok("read_files", map[string]any{"paths": []string{"mixed", "big.txt", "one.js"}})
	if n := tokens.Estimate([]byte(text)); n > maxTokens+500 || !strings.Contains(text, `next: read_files paths=["big.txt", "one.js"]`) {
		t.Errorf("read_files: %d tokens, ends %q", n, text[max(0, len(text)-200):])
	}
}

// Bytes that are not UTF-8 cannot be sent as they are, and the answer says so.
func TestNotUTF8(t *testing.T) {
	dir := project(t, files{"latin": "caf\xe9\n"})
	p := connect(t, Options{Root: dir})
	r := p.tool("read_file", map[string]any{"path": "latin"})
	if r.Content[0].Text != "caf\uFFFD\n" || len(r.Content) != 2 || !strings.Contains(r.Content[1].Text, "not UTF-8") {
		t.Errorf("%+v", r)
	}
}

func TestEscapeHTML(t *testing.T) {
	b, err := text.JSONLine("<a> & b")
	if err != nil || string(b) != "\"<a> & b\"\n" {
		t.Errorf("%q %v", b, err)
	}
}

// A line that no result can hold is read in parts, and together they give the line.
func TestPartsOfLongLine(t *testing.T) {
	long := strings.Repeat("häy and needle ", 20_000)
	p := connect(t, Options{Root: project(t, files{"one.js": "first\n" + long + "\nlast\n"})})
	args, got := map[string]any{"path": "one.js", "offset": 2}, ""
	for range 100 {
		r := p.tool("read_file", args)
		if len(r.Content) != 2 || r.IsError {
			t.Fatalf("%d parts in the answer to %v: %.200s", len(r.Content), args, r.Content[0].Text)
		}
		got += r.Content[0].Text
		var next int
		_, after, _ := strings.Cut(r.Content[1].Text, "byte_offset=")
		if _, err := fmt.Sscanf(after, "%d]", &next); err != nil {
			if !strings.HasSuffix(r.Content[1].Text, "next: read_file path=one.js offset=3]") {
				t.Errorf("the last part says %q", r.Content[1].Text)
			}
			break
		}
		args["byte_offset"] = next
	}
	if got != long+"\n" {
		t.Errorf("%d bytes in parts of a line of %d", len(got), len(long))
	}
	args["byte_offset"] = len(long) + 1
	if r := p.tool("read_file", args); !r.IsError || !strings.Contains(r.Content[0].Text, "beyond the end: line 2") {
		t.Errorf("%+v", r.Content)
	}
}
