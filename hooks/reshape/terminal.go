package reshape

import "cachebro/store/leaf/text"

// This rule removes colour codes.

var colours = text.LazyRegexp("\x1b\\[[0-9;]*m")

func terminal(c *command, text string) (string, string, bool) {
	out := colours().ReplaceAllString(text, "")
	return out, "", out != text
}
