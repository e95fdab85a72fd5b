package mcp

import (
	"fmt"
	"strings"
	"testing"
)

// A file that does not fit into one result is read in pages. A reader that has read all pages gets
// the same answers as for any other file. A reader that asks twice gets the first page again.
func TestLargeFileReread(t *testing.T) {
	var b strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&b, "line %d of a long file with a few words in it\n", i)
	}
	text := b.String()
	l := liveProject(t, files{"big.txt": text})
	p := l.connect(ProfileDefault)
	readAllPages := func() {
		t.Helper()
		got := ""
		for pages := 0; strings.Count(got, "\n") < 3000; pages++ {
			args := map[string]any{"path": "big.txt"}
			if pages > 0 {
				args["offset"] = strings.Count(got, "\n") + 1
			}
			r := p.tool("read_file", args)
			if part := r.Content[0].Text; pages > 10 || part == "" || !strings.HasPrefix(text[len(got):], part) {
				t.Fatalf("page %d begins %.60q", pages, part)
			}
			got += r.Content[0].Text
		}
	}
	readAllPages()
	r := p.tool("read_file", at("big.txt"))
	if !strings.HasPrefix(r.Content[0].Text, "[unchanged · 3000 lines · ") || len(r.Content) != 1 {
		t.Fatalf("a file that is held page by page came back as %.80q", r.Content[0].Text)
	}
	r = p.tool("read_file", at("big.txt"))
	if !strings.HasPrefix(r.Content[0].Text, "line 0 of ") || len(r.Content) != 2 || !strings.Contains(r.Content[1].Text, "next: read_file") {
		t.Fatalf("asked twice, the first page is due: %.80q", r.Content[0].Text)
	}
	text = strings.Replace(text, "line 1500 ", "line fifteen hundred ", 1)
	write(t, l.dir+"/big.txt", text)
	got := p.ok("read_file", at("big.txt"))
	if !strings.HasPrefix(got, "[changed · +1 -1 since your read · 3000 -> 3000 lines]\n@@ -1498,7 +1498,7 @@") {
		t.Fatalf("a changed line came back as %.120q", got)
	}
	// Now every line is different, so no diff fits, and the file is sent in pages again.
	text = strings.ReplaceAll(text, "words", "other words")
	write(t, l.dir+"/big.txt", text)
	readAllPages()
}
