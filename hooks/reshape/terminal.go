package reshape

import "cachebro/store/leaf/text"

// Codes of colours go; nothing of the text goes with them.

var colours = text.LazyRegexp("\x1b\\[[0-9;]*m")

func terminal(c *command, text string) (string, string, bool) {
	out := colours().ReplaceAllString(text, "")
	return out, "", out != text
}
