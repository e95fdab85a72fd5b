package onwire

import (
	"cmp"
	"strings"

	"cachebro/store"
	"cachebro/store/wire/visible"
)

// Display makes a path safe for use in a sentence. It quotes characters that act on a
// terminal or end a line.
func Display(p store.Path) string {
	if p == "" {
		return "."
	}
	return visible.Name(string(p))
}

// ForModel returns a path for use in a sentence to a model.
func ForModel(p store.Path) string { return visible.ForModel(string(p)) }

// ShellName returns a path as a word of a command line that may be pasted into a shell.
func ShellName(p store.Path) string { return visible.Arg(cmp.Or(string(p), ".")) }

// Below returns p relative to dir, if it is dir or inside it.
func Below(p, dir string) (string, bool) {
	if p == dir {
		return "", true
	}
	if dir == "/" {
		return strings.CutPrefix(p, "/")
	}
	if strings.HasPrefix(p, dir+"/") {
		return p[len(dir)+1:], true
	}
	return "", false
}

// Under reports whether a path is dir or lies in its subtree. It returns false for the path
// "".
func Under(p string, dir store.Path) bool {
	_, ok := Below(p, string(dir))
	return ok && p != ""
}

// Clock formats the time of day of a time in ns since the epoch.
func Clock(ns int64) string { return Time(ns).Format("15:04") }
