package text

import (
	"slices"
	"strings"
)

const maxOwnWords = 256

// OwnWords returns the lines of a text that cachebro may have written, such as those of a stub, a
// diff or a folded output. It trims blanks. A text that begins with "@@ -", like a diff without its
// label, is also returned as a whole. Only the daemon knows whether a session received such lines.
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

// NewOwnWords returns the lines of OwnWords(text) that file does not contain yet. The writer of
// text is about to add them to the file.
func NewOwnWords(text, file string) []string {
	return slices.DeleteFunc(OwnWords(text), func(line string) bool { return strings.Contains(file, line) })
}

func isOwn(line string) bool {
	begins := []string{"cachebro: ", "[unchanged · ", "[changed · ", "[... ", "[cachebro: "}
	return slices.ContainsFunc(begins, func(b string) bool { return strings.HasPrefix(line, b) })
}

// OwnWordsHint is the hint for a text that was refused because it contains a line of cachebro's
// own.
const OwnWordsHint = "read the file with force, or from the right offset, and write its text; use a shell command to write such a line on purpose"
