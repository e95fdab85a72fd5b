package reshape

import (
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

// Of frames with the same words, only the last is left. No word that was overwritten is lost, such
// as a warning in the middle of a spinner or the first half of an error.
func TestProgress(t *testing.T) {
	for in, want := range map[string]string{
		"10%\r20%\r100%\ndone\n":                                "100%\ndone\n",
		"10%\r20%\r100%\r\ndone\n":                              "100%\r\ndone\n",
		"get 1 kB\rget 2 kB\r\x1b[Kdone\n":                      "get 2 kB\ndone\n",
		"| work\r/ work\rwarning: disk full\r- work\rdone\n":    "warning: disk full\n- work\ndone\n",
		"error: could not open\rok 1\rok 2\n":                   "error: could not open\nok 2\n",
		"\x1b[?25l|\r/\r-\r\x1b[2K\x1b[1Gready\x1b[?25h\nend\n": "ready\nend\n",
		"|\b/\b-\b\\\b done\n":                                  " done\n",
		"crlf\r\nlines\r\n":                                     "", // stays as it is
		"a: 1\nb: 1\n\x1b[2Aa: 2\n\x1b[1Bend\n":                 "", // the cursor leaves its line
		"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\ 1\rlink 2\n":  "",
	} {
		got, _, ok := progress(&command{}, in)
		if ok != (want != "") || ok && got != want {
			t.Errorf("%q: %q, %v; want %q", in, got, ok, want)
		}
	}
	words := func(s string) map[string]bool {
		has := map[string]bool{}
		for w := range strings.FieldsFuncSeq(returns().ReplaceAllString(erasing().ReplaceAllString(s, ""), "\n"), func(r rune) bool { return !unicode.IsLetter(r) }) {
			has[w] = true
		}
		return has
	}
	piece := rapid.OneOf(rapid.StringMatching(`[a-z0-9 %]{1,9}`), rapid.SampledFrom([]string{"\r", "\n", "\r\n", "\b", "\x1b[K", "\x1b[2K", "\x1b[G", "\x1b[?25l", "█", "✓"}))
	rapid.Check(t, func(t *rapid.T) {
		in := strings.Join(rapid.SliceOfN(piece, 1, 30).Draw(t, "pieces"), "") + "\n"
		out, _, ok := progress(&command{}, in)
		if !ok {
			return
		}
		has := words(out)
		for w := range words(in) {
			if !has[w] {
				t.Fatalf("%q lost %q: %q", in, w, out)
			}
		}
	})
}
