package textedit

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"cachebro/store/leaf/text"
)

func TestLineEnds(t *testing.T) {
	for _, c := range []struct{ content, old, new, want string }{
		{"a\r\nb\r\nc\r\n", "b", "b\nx", "a\r\nb\r\nx\r\nc\r\n"},
		{"a\r\nb\r\n", "a\r\nb", "a\nB", "a\r\nB\r\n"},
		{"a\r\nb\nc\r\n", "a\nb\nc", "a\nB\nc", "a\r\nB\nc\r\n"},
		{"a\r\nb\nc\r\n", "a\r\nb\nc", "a\nB\nc", "a\r\nB\nc\r\n"},
		{"a\r\nb\nc\r\n", "a\nb\nc\n", "a\nx\ny\nc\n", "a\r\nx\ny\nc\r\n"},
		{"a\rb\rc", "a\nb", "a\nB", "a\rB\rc"},
		{"a\rb\rc", "b\rc", "b\rx\ry", "a\rb\rx\ry"},
		{"a\nb\n", "a\r\nb", "A\r\nb", "A\nb\n"},
		{"a\nb\n", "b", "b\r\nc", "a\nb\nc\n"},
		{"a\r\nb", "b", "b\nc\n", "a\r\nb\r\nc\r\n"},
		{"a\r\nb\r\n", "\nb", "\nc", "a\r\nc\r\n"},
		{"a\r\nb\r\n", "a\n", "", "b\r\n"},
		{"one line", "line", "line\nmore", "one line\nmore"},
		{"a\r\nb\r\na\nb\n", "a\r\nb", "a\r\nc", "a\r\nc\r\na\nb\n"},
		{"x\r\ny\r\n\r\nz\n", "y\n\nz", "y\nz", "x\r\ny\r\nz\n"},
		{text.Mark + "a\nb\n", text.Mark + "a", "A", text.Mark + "A\nb\n"},
		{"caf\xe9 a\r\n", "a\n", "b\nc\n", "caf\xe9 b\r\nc\r\n"},
		{"\xff\xfea\x00\r\x00\n\x00", "a", "ä\nb", "\xff\xfe\xe4\x00\r\x00\n\x00b\x00\r\x00\n\x00"},
		{"\xfe\xff\x00a", "a", "b", "\xfe\xff\x00b"},
	} {
		d, err := Apply("f", []byte(c.content), Edit{Old: c.old, New: c.new})
		if c.content == "caf\xe9 a\r\n" && err == nil && string(d.Content) == c.want {
			continue
		}
		if err != nil || string(d.Content) != c.want {
			t.Errorf("%q: %q for %q: %q, %v; want %q", c.content, c.new, c.old, d.Content, err, c.want)
		}
	}
	d, err := Apply("f", []byte("a\r\na\na\r\n"), Edit{Old: "a", New: "a\nb", All: true})
	if err != nil || string(d.Content) != "a\r\nb\r\na\nb\na\r\nb\r\n" || fmt.Sprint(d.Lines) != "[1 2 3]" {
		t.Errorf("everywhere: %q at %v, %v", d.Content, d.Lines, err)
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct{ content, old, new, says string }{
		{"a\x00b", "a", "c", "is binary"},
		{"a\x00b\x00", "a", "c", "is binary"}, // UTF-16 without a byte order mark
		{"a\r\nb\r\n", "\r\n", "\n", "only line ends differ"},
		{"a\nb\n", "a\n", "a\r\n", "only line ends differ"},
		{"caf\xe9\n", "caf", "naïf", "is not UTF-8"},
		{"caf\xe9\n", "caf\uFFFD", "tea", "bytes that are not UTF-8"},
		{"\xff\xfe\x00\xd8a\x00", "a", "b", "damaged UTF-16"},
		{"a\r\nb\r\na\nb\n", "a\nb", "c", "occurs 2 times in f (lines 1, 3)"},
		{"x\na\u00a0b\n", "a b", "c", "line 2 differs from it only in no-break spaces for blanks"},
		{"x\nsay “hi”\n", `say "hi"`, "c", "line 2 differs from it only in curly quotes"},
		{"e\u0301t\u00e9\n", "\u00e9t\u00e9", "c", "line 1 differs from it only in the Unicode normal form"},
		{"if x {\n\tgo\n}\n", "if x {\n    go\n}", "c", "line 1 differs from it only in indentation"},
		{"a\tb\n", "a b", "c", "line 1 differs from it only in tabs and blanks"},
		{"a  \nb\n", "a\nb", "c", "line 1 differs from it only in blanks at the end"},
		{"a\nb", "b\n", "c\n", "whose last line has no line end"},
		{"one\ntwo\nthree\n", "one\ntwo\nfour\n", "c", `its first 2 lines match at line 1; then old_string has "four" and the file has "three"`},
		{"one\n", "elsewhere", "c", "nothing in the file resembles it"},
	} {
		_, err := Apply("f", []byte(c.content), Edit{Old: c.old, New: c.new})
		var r *Refusal
		if !errors.As(err, &r) || !strings.Contains(r.Why+" / "+r.Hint, c.says) {
			t.Errorf("%q in %q: %+v, want %q", c.old, c.content, r, c.says)
		}
		if err != nil && strings.Contains(r.Hint, "may have changed") {
			t.Errorf("%q: says that the file changed", c.old)
		}
	}
}

func TestWhole(t *testing.T) {
	for _, c := range []struct{ content, new, want, kept string }{
		{"", "a\n", "a\n", ""},
		{"a\n", "b\r\n", "b\r\n", ""},
		{"a\r\n", "b\nc\n", "b\r\nc\r\n", "CRLF line ends"},
		{"a\r\nb\n", "b\nc\n", "b\nc\n", ""},
		{text.Mark + "a\r\n", "b\n", text.Mark + "b\r\n", "byte order mark and CRLF line ends"},
		{"\xfe\xff\x00a", "ä\n", "\xfe\xff\x00\xe4\x00\n", "UTF-16 BE"},
		{"a\x00", "b\n", "b\n", ""},
	} {
		got, kept, err := Whole([]byte(c.content), c.new)
		if string(got) != c.want || kept != c.kept || err != nil {
			t.Errorf("%q over %q: %q, kept %q, %v", c.new, c.content, got, kept, err)
		}
	}
}

// Whatever line ends a file has, the text outside of the edit keeps its bytes. A line inside the
// edit keeps its bytes if the new text repeats it.
func TestNothingElseChanges(t *testing.T) {
	ends := []string{"\n", "\r\n", "\r"}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		kinds := 1 + rnd.IntN(3)
		var file, given []string // lines with the file's ends, and with LF
		n := 1 + rnd.IntN(12)
		for i := range n {
			l := fmt.Sprintf("line %d %x", i, rnd.IntN(1<<16))
			file = append(file, l+ends[(rnd.IntN(kinds)+kinds)%3])
			given = append(given, l+"\n")
		}
		from := rnd.IntN(n)
		to := from + 1 + rnd.IntN(n-from)
		change := from + rnd.IntN(to-from)
		old := strings.Join(given[from:to], "")
		given[change] = "changed\n"
		want := strings.Join(file, "")
		end := file[change][strings.IndexAny(file[change], "\r\n"):]
		wanted := strings.Join(file[:change], "") + "changed" + end + strings.Join(file[change+1:], "")
		for _, mark := range []string{"", "\xff\xfe", "\xfe\xff"} {
			content, result := []byte(want), []byte(wanted)
			if mark != "" {
				var err, err2 error
				content, err = text.Like([]byte(mark), content)
				result, err2 = text.Like([]byte(mark), result)
				if err != nil || err2 != nil {
					t.Fatal(err, err2)
				}
			}
			d, err := Apply("f", content, Edit{Old: old, New: strings.Join(given[from:to], "")})
			if err != nil || !bytes.Equal(d.Content, result) {
				t.Fatalf("%q: %q, %v; want %q", content, d.Content, err, result)
			}
		}
	}
}
