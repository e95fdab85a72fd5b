package mcp

import (
	"os"
	"path"
	"strings"
	"unicode/utf8"

	"cachebro/store/leaf/text"

	"golang.org/x/text/unicode/norm"
)

// nearest returns the file that was probably meant, or "": a file in the same directory whose name
// differs only in case or a few letters.
func (s *Server) nearest(rel string) string {
	dir, base := path.Split(rel)
	root, err := os.OpenRoot(s.dir())
	if err != nil {
		return ""
	}
	defer root.Close()
	d, err := root.Open(name(path.Clean(dir)))
	if err != nil {
		return ""
	}
	defer d.Close()
	names, _ := d.Readdirnames(5000)
	best, bestAt := "", max(2, utf8.RuneCountInString(base)/4)+1
	for _, n := range names {
		at := text.Distance(foldName(base), foldName(n))
		if strings.TrimSuffix(n, path.Ext(n)) == strings.TrimSuffix(base, path.Ext(base)) {
			at = min(at, 2) // main.js for main.ts
		}
		if at < bestAt || at == bestAt && best != "" && n < best {
			best, bestAt = n, at
		}
	}
	if best == "" {
		return ""
	}
	return dir + best
}

// foldName removes differences of case and Unicode form.
func foldName(n string) string { return strings.ToLower(norm.NFC.String(n)) }
