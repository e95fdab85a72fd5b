package reshape

import (
	"fmt"
	"strings"

	"cachebro/store/leaf/text"
)

// hint matches the lines in which git suggests what to do next.
var hint = text.LazyRegexp(`^(?:hint: .*|hint:|\s+\(use "git [^"]*"[^)]*\)|\s+\(commit or discard the untracked or modified content in submodules\)|\s*\(use "git .*"\))$`)

func hints(c *command, text string) (string, string, bool) {
	if strings.Contains(text, "CONFLICT") || strings.Contains(text, "fatal:") || strings.Contains(text, "error:") {
		return "", "", false
	}
	lines, last := splitLines(text)
	var out []string
	for _, l := range lines {
		if !hint().MatchString(l) {
			out = append(out, l)
		}
	}
	n := len(lines) - len(out)
	if n == 0 {
		return "", "", false
	}
	return joinLines(out, last), fmt.Sprintf("%d hints of git folded", n), true
}
