package search

import (
	"fmt"
	"strings"
	"testing"
)

// TestBounds asks for more than an answer holds: what is left out is counted and
// said, and a file that is too large to be read is named.
func TestBounds(t *testing.T) {
	c := newDiskCorpus(t, t.TempDir())
	line := strings.Repeat("needle and hay ", 30) + "\n"
	const files, lines = 24, 4000
	for n := range files {
		c.write(t, fmt.Sprintf("dir/file%02d.txt", n), strings.Repeat(line, lines))
	}
	x := openIndex(t, c)
	r, err := x.Grep(t.Context(), Query{Pattern: "needle"})
	if err != nil || !r.Truncated || r.Files != files || r.Total != files*lines || !strings.Contains(r.Warning, "only counted") {
		t.Errorf("%d lines of %d in %d files, truncated %v, %q: %v", len(r.Lines), r.Total, r.Files, r.Truncated, r.Warning, err)
	}
	held := 0
	for i, l := range r.Lines {
		if held += len(l.Text); l.No != i%lines+1 || string(l.Path) != fmt.Sprintf("dir/file%02d.txt", i/lines) {
			t.Fatalf("line %d is %s:%d: the lines are not the first ones", i, l.Path, l.No)
		}
	}
	if held > maxKept+8<<20 {
		t.Errorf("%d bytes of lines are held, want %d at most", held, maxKept)
	}
	r, err = x.Grep(t.Context(), Query{Pattern: "needle", Limit: lines + 5})
	if err != nil || len(r.Lines) != lines+5 || r.Total != files*lines || r.Files != files || !r.Truncated {
		t.Errorf("limit: %d lines of %d in %d files: %v", len(r.Lines), r.Total, r.Files, err)
	}
	r, err = x.Grep(t.Context(), Query{Pattern: "needle", Path: "dir/file03.txt", Limit: lines})
	if err != nil || len(r.Lines) != lines || r.Truncated {
		t.Errorf("just the limit: %d lines, truncated %v: %v", len(r.Lines), r.Truncated, err)
	}
	c.most = 1 << 20
	c.write(t, "small.txt", line)
	r, err = x.Grep(t.Context(), Query{Pattern: "needle"})
	if err != nil || len(r.Lines) != 1 || !strings.Contains(r.Warning, `too large: "dir/file00.txt", "dir/file01.txt", "dir/file02.txt" and 21 more`) {
		t.Errorf("too large: %d lines, %q: %v", len(r.Lines), r.Warning, err)
	}
}

// TestLowerASCII compares the folding of eight bytes at a time with the plain one.
func TestLowerASCII(t *testing.T) {
	text := make([]byte, 0, 600)
	for i := range 256 {
		text = append(text, byte(i), byte(i*7))
	}
	for from := range 9 {
		for _, end := range []int{from, from + 1, from + 7, from + 8, from + 63, len(text)} {
			in := text[from:end]
			want, ascii := make([]byte, len(in)), true
			for i, b := range in {
				if want[i] = b; 'A' <= b && b <= 'Z' {
					want[i] += 'a' - 'A'
				}
				ascii = ascii && b < 0x80
			}
			if got, all := lowerASCII(nil, in); string(got) != string(want) || all != ascii {
				t.Fatalf("%q: %q, %v; want %q, %v", in, got, all, want, ascii)
			}
		}
	}
}

// TestExpressionsAreBounded: an expression of a few bytes stands for millions
// of steps, each of which is looked at for each byte of the text.
func TestExpressionsAreBounded(t *testing.T) {
	for _, p := range []string{"(?:abcdefghijk|b){1000}", "(?:[a-c]{30}x?){30}(?:abcdefghijkl){900}", strings.Repeat("a?", 9000) + strings.Repeat("a", 9000)} {
		if err := Check(Query{Pattern: p, Regex: true}); err == nil || !strings.Contains(err.Error(), "steps") {
			t.Errorf("%.30q: %v", p, err)
		}
	}
	if err := Check(Query{Pattern: strings.Repeat("[a-f0-9]{8}-?", 5) + "|(?:word|other){50}", Regex: true}); err != nil {
		t.Error(err)
	}
}
