package reshape

import (
	"strings"
	"testing"

	vt "github.com/buildkite/terminal-to-html/v3"
	"pgregory.net/rapid"
)

// emulated is what an emulator of a terminal shows, without blanks at line ends and
// empty lines at the end.
func emulated(t failer, text string) string {
	t.Helper()
	s, err := vt.NewScreen(vt.WithSize(2000, strings.Count(text, "\n")+50))
	if err != nil {
		t.Fatalf("%v", err)
	}
	if _, err := s.Write([]byte(text)); err != nil {
		t.Fatalf("%v", err)
	}
	return seen(s.AsPlainText())
}

func seen(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " \r")
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// What is left of a text is what a terminal finally shows of it.
func TestTerminalShows(t *testing.T) {
	for in, want := range map[string]string{
		"\x1b[32mok\x1b[0m done\n":                          "ok done\n",
		"10%\r20%\r100%\ndone\n":                            "100%\ndone\n",
		"downloading\r\x1b[Kdone\n":                         "done\n",
		"abc\b\bX\n":                                        "aXc\n",
		"a: 1\nb: 1\n\x1b[2Aa: 2\n\x1b[1Bend\n":             "a: 2\nb: 1\nend\n",
		"\x1b[31m\tindented\x1b[0m  \n":                     "\tindented  \n",
		"crlf\r\nlines\r\n":                                 "", // stays
		"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n":        "", // not what all agree on
		"tab\there\rover\n":                                 "",
		"\x1b[5Aabove\n":                                    "",
		"日本\rab\n":                                          "",
		"\x1b[?25l|\r/\r-\r\x1b[2K\x1b[1Gready\x1b[?25h\n ": "ready\n ",
	} {
		got, _, ok := terminal(nil, in)
		if ok != (want != "") || ok && got != want {
			t.Errorf("%q: %q, %v; want %q", in, got, ok, want)
		}
	}
	piece := rapid.OneOf(rapid.StringMatching(`[a-z0-9 %]{1,9}`), rapid.SampledFrom([]string{"\r", "\n", "\r\n", "\b", "\x1b[K", "\x1b[2K", "\x1b[1K", "\x1b[A", "\x1b[2A", "\x1b[B", "\x1b[3C", "\x1b[2D", "\x1b[5G", "\x1b[G", "\x1b[J", "\x1b[32m", "\x1b[0;1m", "\x1b[?25l", "█", "✓"}))
	rapid.Check(t, func(t *rapid.T) {
		in := strings.Join(rapid.SliceOfN(piece, 1, 30).Draw(t, "pieces"), "") + "\n"
		if out, _, ok := terminal(nil, in); ok && seen(out) != emulated(t, in) {
			t.Fatalf("%q: %q, a terminal shows %q", in, out, emulated(t, in))
		}
	})
}
