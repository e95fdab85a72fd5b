package visible

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

func whole(s string) string {
	out, _ := show([]byte(s), true)
	return string(out)
}

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"":                          "",
		"plain\ttext\n":             "plain\ttext\n",
		"Größe 👩‍💻":                 "Größe 👩<U+200D>💻",
		"a\x1b]0;title\x07b":        "a^[]0;title^Gb",
		"\x1b[31mred\x1b[0m":        "\x1b[31mred\x1b[0m",
		"\x1b[8mhidden\x1b[2J":      "^[[8mhidden^[[2J",
		"over\rwritten":             "over^Mwritten",
		"dos\r\n":                   "dos\r\n",
		"gpj.\u202eexe":             "gpj.<U+202E>exe",
		"one\u2028two\u2029three":   "one<U+2028>two<U+2029>three",
		"\u2066x\u2069\ufeff\u0085": "<U+2066>x<U+2069><U+FEFF><U+0085>",
		"\xff\xc3":                  "<FF><C3>",
		"\x00\x7f\x1b":              "^@^?^[",
		"\u009b31m":                 "<U+009B>31m",
	} {
		if got := whole(in); got != want {
			t.Errorf("%q is shown as %q, want %q", in, got, want)
		}
	}
}

// FuzzWriter: however a text is split into writes, it is shown as if it were written at once, and
// no part of it acts on a terminal.
func FuzzWriter(f *testing.F) {
	f.Add("a\x1b[31mb\u202ec\r\n\xff\xe2\x80", 3)
	f.Add("\x1b[3", 1)
	f.Fuzz(func(t *testing.T, text string, step int) {
		step = max(1, step%7)
		var out bytes.Buffer
		w := New(&out)
		for rest := text; rest != ""; {
			n := min(step, len(rest))
			if m, err := w.Write([]byte(rest[:n])); m != n || err != nil {
				t.Fatal(m, err)
			}
			rest = rest[n:]
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); got != whole(text) {
			t.Errorf("%q in pieces of %d is shown as %q, whole as %q", text, step, got, whole(text))
		}
		plain := out.String()
		for _, c := range colours {
			plain = strings.ReplaceAll(plain, string(c), "")
		}
		plain = strings.ReplaceAll(plain, "\r\n", "\n")
		if !utf8.ValidString(plain) || strings.ContainsFunc(plain, func(r rune) bool { return r != '\n' && r != '\t' && Acts(r) }) {
			t.Errorf("%q is left in %q", plain, text)
		}
	})
}

func TestControls(t *testing.T) {
	for in, want := range map[string]string{"plain ä\t\r\n": "plain ä\t\r\n", "a\x1b[31mb\x07": "a^[[31mb^G", "\x7f\u009b": "^?<U+009B>"} {
		if got := Controls(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
