package wire

import "strings"

// OwnWords returns the line by which a text that is about to be written into a file is an
// answer of ours and no file: a stub, a diff or a folded output that a model took for the
// text. It is "" for any other text, and where the file has that line already.
func OwnWords(text, file string) string {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if isOwn(line) && !strings.Contains(file, line) {
			return line
		}
	}
	return ""
}

func isOwn(line string) bool {
	if strings.HasPrefix(line, "cachebro: not repeated. ") {
		return true // what the client's own Read is given
	}
	if !strings.HasSuffix(line, "]") {
		return false
	}
	switch {
	case strings.HasPrefix(line, "[unchanged · "):
		return strings.HasSuffix(line, " saved]")
	case strings.HasPrefix(line, "[changed · "):
		return strings.HasSuffix(line, " lines]") || strings.HasSuffix(line, " items]")
	}
	return strings.HasPrefix(line, "[... diff truncated at ") || strings.HasPrefix(line, "[cachebro: ")
}

// OwnWordsHint says what to do where OwnWords found a line.
const OwnWordsHint = "read the file with force, or from the offset that is meant, and write its text; a shell command writes such a line where it is meant"
