package text

import (
	"slices"
	"strings"
)

// maxOwnWords bounds the lines of a text that are asked about.
const maxOwnWords = 256

// OwnWords returns the lines of a text that may be cachebro's own, without the blanks around
// them: of a stub, a diff or a folded output. A text that is a diff without its first line is
// one of them as a whole. Only the daemon knows whether a session was given them.
func OwnWords(text string) (lines []string) {
	if whole := strings.TrimSpace(text); strings.HasPrefix(whole, "@@ -") {
		lines = append(lines, whole)
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if isOwn(line) && !slices.Contains(lines, line) && len(lines) < maxOwnWords {
			lines = append(lines, line)
		}
	}
	return lines
}

// NewOwnWords are those that a file does not hold yet: they are what somebody is about to
// write into it.
func NewOwnWords(text, file string) []string {
	return slices.DeleteFunc(OwnWords(text), func(line string) bool { return strings.Contains(file, line) })
}

func isOwn(line string) bool {
	for _, begin := range []string{"cachebro: ", "[unchanged · ", "[changed · ", "[... ", "[cachebro: "} {
		if strings.HasPrefix(line, begin) {
			return true
		}
	}
	return false
}

// OwnWordsHint says what to do where a text is refused for such a line.
const OwnWordsHint = "read the file with force, or from the offset that is meant, and write its text; a shell command writes such a line where it is meant"
