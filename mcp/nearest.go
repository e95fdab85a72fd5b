package mcp

import (
	"os"
	"path"
	"strings"
)

// nearest looks for the file that was meant: the same directory, a name that
// differs by case or by a few letters. "" if nothing is close.
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
	best, bestAt := "", max(2, len(base)/4)+1
	for _, n := range names {
		at := distance(strings.ToLower(base), strings.ToLower(n), bestAt)
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

// distance is the edit distance of a and b, or limit if it is not below that.
func distance(a, b string, limit int) int {
	if d := len(a) - len(b); d >= limit || -d >= limit {
		return limit
	}
	prev := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(prev[j]+cost, prev[j+1]+1, row[j]+1)
		}
		prev = row
	}
	return min(prev[len(b)], limit)
}
