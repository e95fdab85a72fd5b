package reshape

import "cachebro/store/leaf/expr"

// Codes of colours go; nothing of the text goes with them.

var colours = expr.Lazy("\x1b\\[[0-9;]*m")

func terminal(c *command, text string) (string, string, bool) {
	out := colours().ReplaceAllString(text, "")
	return out, "", out != text
}
