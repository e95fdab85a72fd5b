package reshape

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"cachebro/store/leaf/text"
)

// A program that shows its progress writes one line again and again. Each of these frames is
// made a line of its own. Of the frames of one line that have the same words, only the last is
// kept. A frame with other words, such as a warning that a spinner overwrote, is kept too,
// though a terminal would not show it any more.
//
// A text in which the cursor leaves its line is left alone.

var (
	// erasing is what may stand in a frame without being seen.
	erasing = text.LazyRegexp("\x1b\\[(?:[012]?K|\\?25[hl])")
	// returns end a frame: to the first column, or some columns back.
	returns = text.LazyRegexp("\r|\x1b\\[[01]?G|\x1b\\[[0-9]*D|\b+")
)

func progress(c *command, text string) (string, string, bool) {
	if c.failed || !strings.ContainsAny(text, "\r\b\x1b") {
		return "", "", false
	}
	lines, last := splitLines(text)
	var out []string
	dropped := 0
	for _, l := range lines {
		body, crlf := strings.CutSuffix(l, "\r")
		frames := returns().Split(erasing().ReplaceAllString(body, ""), -1)
		kept := lastOfEach(frames)
		dropped += max(0, len(frames)-len(kept))
		if crlf {
			kept[len(kept)-1] += "\r"
		}
		out = append(out, kept...)
	}
	joined := joinLines(out, last)
	if dropped == 0 || strings.ContainsAny(joined, "\x1b\b") {
		return "", "", false
	}
	return joined, fmt.Sprintf("%d frames of progress folded", dropped), true
}

// lastOfEach are the frames that have other words than all that follow, in their
// order. A frame without words counts only where it is the last.
func lastOfEach(frames []string) []string {
	frames = slices.DeleteFunc(frames, func(f string) bool { return f == "" })
	later := map[string]bool{}
	var kept []string
	for _, f := range slices.Backward(frames) {
		if w := wordsOf(f); !later[w] {
			later[w], later[""] = true, true
			kept = append(kept, f)
		}
	}
	if len(kept) == 0 {
		return []string{""}
	}
	slices.Reverse(kept)
	return kept
}

// wordsOf are the letters of a frame, word by word.
func wordsOf(frame string) string {
	return strings.Join(strings.FieldsFunc(frame, func(r rune) bool { return !unicode.IsLetter(r) }), " ")
}
