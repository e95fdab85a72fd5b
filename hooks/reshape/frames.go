package reshape

import (
	"fmt"

	"cachebro/store/leaf/text"
)

// Consecutive stack frames in libraries or in the language's own code are folded. The project's
// frames stay.

var (
	pyFrame   = text.LazyRegexp(`^\s*File "[^"]*(?:/site-packages/|/dist-packages/|/lib/python[0-9.]+/|<frozen )[^"]*", line \d+`)
	nodeFrame = text.LazyRegexp(`^\s+at .*(?:/node_modules/|\(?node:|\(?internal/)`)
	// In Go a frame has two lines, the function and the file.
	goFile = text.LazyRegexp(`^\t(?:\S*/go/src/|/usr/lib/go[^/]*/src/|\S*/pkg/mod/)\S+\.(?:go|s):\d+`)
	goFunc = text.LazyRegexp(`^(?:created by )?[\w./\-%]+[.(].*$`)
)

const minFrames = 3

func frames(c *command, text string) (string, string, bool) {
	lines, last := splitLines(text)
	var out []string
	total := 0
	for i := 0; i < len(lines); {
		n, count := 0, 0
		for {
			size := frameAt(lines[i+n:])
			if size == 0 {
				break
			}
			n, count = n+size, count+1
		}
		if count < minFrames {
			out = append(out, lines[i:i+max(n, 1)]...)
			i += max(n, 1)
			continue
		}
		out = append(out, fmt.Sprintf("%s[%s%d frames outside of the project folded]", indentOf(lines[i]), Mark, count))
		total += count
		i += n
	}
	if total == 0 {
		return "", "", false
	}
	return joinLines(out, last), fmt.Sprintf("%d foreign stack frames folded", total), true
}

// frameAt returns the number of lines of the foreign frame that begins with lines[0], or 0.
func frameAt(lines []string) int {
	switch {
	case len(lines) == 0:
		return 0
	case nodeFrame().MatchString(lines[0]):
		return 1
	case pyFrame().MatchString(lines[0]):
		n := 1
		for n < len(lines) && n < 4 && lines[n] != "" && len(indentOf(lines[n])) > len(indentOf(lines[0])) {
			n++ // the line of code and the marks under it
		}
		return n
	case len(lines) > 1 && goFile().MatchString(lines[1]) && goFunc().MatchString(lines[0]):
		return 2
	}
	return 0
}
