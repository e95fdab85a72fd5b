package onwire

import (
	"cmp"
	"strings"

	"cachebro/store"
	"cachebro/store/wire/visible"
)

// Display makes a path safe in a sentence: what acts on a terminal or ends a line
// is quoted.
func Display(p store.Path) string {
	if p == "" {
		return "."
	}
	return visible.Name(string(p))
}

// Told is a path in a sentence for a model.
func Told(p store.Path) string { return visible.Told(string(p)) }

// ShellName is a path as a word of a command line that may be pasted into a shell.
func ShellName(p store.Path) string { return visible.Arg(cmp.Or(string(p), ".")) }

// Below returns p relative to dir, if it is dir or inside.
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

// Under reports whether a path is dir or below it; no path is nowhere.
func Under(p string, dir store.Path) bool {
	_, ok := Below(p, string(dir))
	return ok && p != ""
}

// Clock is the time of day of a moment in ns since the epoch.
func Clock(ns int64) string { return Time(ns).Format("15:04") }
