package reshape

import (
	"slices"
	"strings"

	"cachebro/store/leaf/text"
)

// git blame names commit, author and time on each line. They are said once for the lines in
// a row that have the same:
//
//	1a2b3c4d (Ann Other 2024-11-23 02:38:00 +0100
//	 12) func main() {
//	 13) 	run()

var blamedLine = text.LazyRegexp(`^(\^?[0-9a-f]{7,40} .*?\(.+? \d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4})( +\d+\).*)$`)

func blames(words []string) bool { return words[0] == "git" && slices.Contains(words[1:], "blame") }

func blame(_ *command, text string) (string, string, bool) {
	lines, last := splitLines(text)
	var out []string
	who := ""
	for _, l := range lines {
		m := blamedLine().FindStringSubmatch(l)
		if m == nil {
			return "", "", false
		}
		if m[1] != who {
			who = m[1]
			out = append(out, who)
		}
		out = append(out, m[2])
	}
	return joinLines(out, last), "", true
}

// unblame is the inverse of blame.
func unblame(text string) (string, bool) {
	lines, last := splitLines(text)
	var out []string
	who := ""
	for _, l := range lines {
		switch {
		case !strings.HasPrefix(l, " "):
			who = l
		case who == "":
			return "", false
		default:
			out = append(out, who+l)
		}
	}
	return joinLines(out, last), true
}
