package onwire

import (
	"cmp"
	"strings"

	"cachebro/store"
	"cachebro/store/wire/visible"
)

// Display returns a path for use in a sentence. It quotes characters that act on a terminal or end
// a line.
func Display(p store.Path) string {
	if p == "" {
		return "."
	}
	return visible.Name(string(p))
}

// ForModel returns a path for use in a sentence to a model.
func ForModel(p store.Path) string { return visible.ForModel(string(p)) }

// ShellName returns a path as a word of a command line that users may paste into a shell.
func ShellName(p store.Path) string { return visible.Arg(cmp.Or(string(p), ".")) }

// Below returns p relative to dir. It returns false if p is outside dir.
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

// Under reports whether a path is dir or in its subtree. It returns false for "".
func Under(p string, dir store.Path) bool {
	_, ok := Below(p, string(dir))
	return ok && p != ""
}

// Clock formats the time of day of a time in ns since the epoch.
func Clock(ns int64) string { return Time(ns).Format("15:04") }
