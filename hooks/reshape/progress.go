package reshape

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"cachebro/store/leaf/text"
)

// A program that shows its progress overwrites one line again and again. Each state of that line is
// a frame. If several frames have the same words, only the last one is kept, as a line of its own. A
// frame with other words is kept too, such as a warning that a spinner overwrote.
//
// A text in which the cursor moves to another line is not changed.

var (
	// erasing matches the invisible codes that a frame may contain.
	erasing = text.LazyRegexp("\x1b\\[(?:[012]?K|\\?25[hl])")
	// returns matches the end of a frame: the cursor moves back to the left.
	returns = text.LazyRegexp("\r|\x1b\\[[01]?G|\x1b\\[[0-9]*D|\b+")
)

func progress(c *command, text string) (string, string, bool) {
	if !strings.ContainsAny(text, "\r\b\x1b") {
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

// lastOfEach returns, in order, the frames whose words differ from those of every later frame. It
// drops a frame without words unless it is the last.
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

// wordsOf returns the words of a frame. A word consists only of letters.
func wordsOf(frame string) string {
	return strings.Join(strings.FieldsFunc(frame, func(r rune) bool { return !unicode.IsLetter(r) }), " ")
}
