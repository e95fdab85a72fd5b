package search

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestBounds requests more lines than an answer may contain. The omitted lines are counted and
// reported, and a file that is too large to be read is named.
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
	if err != nil || len(r.Lines) != 1 || r.NotSearched != `24 too large ("dir/file00.txt", "dir/file01.txt", "dir/file02.txt", …)` {
		t.Errorf("too large: %d lines, %q: %v", len(r.Lines), r.NotSearched, err)
	}
}

// TestNotSearched checks that the files whose lines were not searched are counted, whatever the
// index knows about them. A source file with a NUL byte used to be left out, and the answer said
// only "no hits".
func TestNotSearched(t *testing.T) {
	c := newDiskCorpus(t, t.TempDir())
	c.write(t, "a.png", "\x89PNG\x00needle")
	c.write(t, "src/main.go", "package main\x00 // needle\n")
	c.write(t, "src/text.go", "package main // needle\n")
	dir := t.TempDir()
	x := Open(dir, c, Options{})
	defer func() { x.Close() }()
	asks := func(when, want string, q Query) {
		t.Helper()
		r, err := x.Grep(t.Context(), q)
		if err != nil || r.NotSearched != want {
			t.Errorf("%s: %q, want %q: %v", when, r.NotSearched, want, err)
		}
	}
	all := Query{Pattern: "needle"}
	const both = `2 binary ("src/main.go", "a.png")`
	asks("no index yet", both, all)
	if err := x.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	asks("indexed", both, all)
	asks("a word that is nowhere", both, Query{Pattern: "nowhere"})
	asks("a part of the tree", `1 binary ("src/main.go")`, Query{Pattern: "needle", Path: "src"})
	asks("a glob", `1 binary ("a.png")`, Query{Pattern: "needle", Include: []string{"*.png"}})
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	x = Open(dir, c, Options{})
	asks("opened again", both, all)
	c.write(t, "src/main.go", "package main // needle\n")
	asks("a text now, not indexed yet", `1 binary ("a.png")`, all)
	c.remove(t, "a.png")
	asks("gone", "", all)
	for range 2 { // the second time from the stored index
		if err := x.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		asks("indexed again", "", all)
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
		x = Open(dir, c, Options{})
	}
	c.write(t, "new.bin", "\x00")
	asks("not indexed yet", `1 binary ("new.bin")`, all)
	if err := os.Chmod(filepath.Join(c.root, "src/text.go"), 0); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() != 0 {
		asks("unreadable", `1 binary ("new.bin"), 1 unreadable ("src/text.go")`, all)
	}
}

// TestNotSearchedOtherwise checks that other kinds of searches also count the files that they could
// not search. A search by words uses the index, a search for definitions reads some files, and a
// search of the past opens old contents. A search by name finds a file whatever it contains.
func TestNotSearchedOtherwise(t *testing.T) {
	c := newDiskCorpus(t, t.TempDir())
	c.write(t, "web/logo.png", "\x89PNG\x00needle")
	c.write(t, "src/nul.go", "package main\x00 // needle\nfunc needle() {}\n")
	c.write(t, "src/large.go", "package main\n"+strings.Repeat("// a line of a large file\n", 100))
	c.write(t, "src/text.go", "package main // needle\nfunc needle() {}\n")
	x := Open(t.TempDir(), c, Options{MaxFile: 1000})
	defer func() { x.Close() }()
	check := func(when, got, want string, err error) {
		t.Helper()
		if err != nil || got != want {
			t.Errorf("%s: %q, want %q: %v", when, got, want, err)
		}
	}
	const waiting = `4 not indexed yet ("src/large.go", "src/nul.go", "src/text.go", …)`
	check("by words, no index yet", x.NotIndexed(Query{}), waiting, nil)
	if err := x.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	const unindexed = `2 binary ("src/nul.go", "web/logo.png"), 1 too large ("src/large.go")`
	check("by words", x.NotIndexed(Query{}), unindexed, nil)
	check("by words, a part of the tree", x.NotIndexed(Query{Path: "web"}), `1 binary ("web/logo.png")`, nil)
	hits, left, err := x.Symbols(t.Context(), "needle", Query{}, Hints{}, 0)
	if len(hits) != 1 {
		t.Errorf("definitions: %v", hits)
	}
	check("definitions", left, `1 binary ("src/nul.go"), 1 too large ("src/large.go")`, err)
	names := x.Names("logo", Query{}, 10)
	if len(names) != 1 || names[0].Path != "web/logo.png" {
		t.Errorf("names: %v", names)
	}
	c.write(t, "web/logo.png", "\x89PNG\x00other")
	c.write(t, "src/text.go", "package main\n")
	past, err := x.History(t.Context(), Query{Pattern: "needle"}, 0)
	if len(past.Hits) != 1 || past.Hits[0].Path != "src/text.go" {
		t.Errorf("history: %v", past.Hits)
	}
	check("history", past.NotSearched, `1 binary ("web/logo.png")`, err)
	check("by words, newer than the index", x.NotIndexed(Query{Path: "src"}), `1 binary ("src/nul.go"), 1 too large ("src/large.go"), 1 not indexed yet ("src/text.go")`, nil)
}

// TestLowerASCII compares lowerASCII, which works on eight bytes at a time, with the simple method.
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

// TestExpressionsAreBounded: a short expression may stand for millions of steps, each of which
// would be tried at each byte of the text. Such expressions are refused.
func TestExpressionsAreBounded(t *testing.T) {
	for _, p := range []string{"(?:abcdefghijk|b){1000}", "(?:[a-c]{30}x?){30}(?:abcdefghijkl){900}", strings.Repeat("a?", 9000) + strings.Repeat("a", 9000)} {
		if err := Check(Query{Pattern: p, Regex: true}); err == nil || !strings.Contains(err.Error(), "steps") {
			t.Errorf("%.30q: %v", p, err)
		}
	}
	// The hint used to blame look-around for an escape or flag that is not supported, and not to
	// mention it for look-behind.
	for _, p := range []string{`\u00e9`, `(?x) a # b`, `(?<=a)b`} {
		if err := Check(Query{Pattern: p, Regex: true}); err == nil || !strings.Contains(err.Error(), "RE2's syntax, which has no look-around") {
			t.Errorf("%s: %v", p, err)
		}
	}
	if err := Check(Query{Pattern: strings.Repeat("[a-f0-9]{8}-?", 5) + "|(?:word|other){50}", Regex: true}); err != nil {
		t.Error(err)
	}
}

// TestLongLine finds words in one line of 6 MB. The answer contains only the part of the line
// around the match, with the right position of that part.
func TestLongLine(t *testing.T) {
	c := newDiskCorpus(t, t.TempDir())
	hay := strings.Repeat("häy ", 1<<20)
	line := hay + "needle7" + hay
	c.write(t, "min.js", "short needle\n"+line+"\n")
	x := openIndex(t, c)
	for _, q := range []Query{{Pattern: "needle"}, {Pattern: "NEEDLE7", CaseSensitive: false}, {Pattern: "n[e]{2}dle[0-9]", Regex: true}, {Pattern: "h.y.*needle7", Regex: true}} {
		r, err := x.Grep(t.Context(), q)
		if err != nil || len(r.Lines) == 0 {
			t.Fatal(q.Pattern, err)
		}
		l := r.Lines[len(r.Lines)-1]
		text := string(l.Text)
		if l.No != 2 || l.Size != len(line) || len(text) > maxLineText+4 || !strings.Contains(text, "needle7") || !utf8.ValidString(text) {
			t.Errorf("%s: line %d with %d of %d bytes, needle at %d", q.Pattern, l.No, len(text), l.Size, strings.Index(text, "needle7"))
		}
		if line[l.Before:l.Before+len(text)] != text {
			t.Errorf("%s: not at %d", q.Pattern, l.Before)
		}
		if at := strings.Index(text, "needle7"); l.At < at || l.At > at+len("needle7") {
			t.Errorf("%s: the match is reported at %d and is at %d", q.Pattern, l.At, at)
		}
	}
}

// The list of files that an exact search could not read used to get lost if no line matched and a
// search by words followed, which had a list of its own.
func TestJoinNotSearched(t *testing.T) {
	const binary, unread, late = `1 binary ("b")`, `1 binary ("b"), 1 unreadable ("u")`, `1 binary ("b"), 1 not indexed yet ("n")`
	for _, c := range [][3]string{{"", "", ""}, {binary, "", binary}, {"", binary, binary}, {unread, binary, unread}, {binary, late, late}, {unread, late, unread + ", " + late}} {
		if got := JoinNotSearched(c[0], c[1]); got != c[2] {
			t.Errorf("%q and %q: %q", c[0], c[1], got)
		}
	}
}
