//go:build linux || darwin

package sys

import (
	"strings"

	"golang.org/x/text/unicode/norm"
)

// SameName reports whether two names are equal on a volume that ignores case and normalises names.
// Volumes differ in what they fold (ß and ss, ignored characters). So SameName is used only where
// the volume cannot be asked: for names that do not exist, and to compare the names of one file.
func SameName(a, b string) bool {
	return a == b || strings.EqualFold(norm.NFD.String(a), norm.NFD.String(b))
}

// spelling chooses, among an inode's names in a directory, the one that matches name.
func spelling(name string, of []string) string {
	if len(of) == 1 {
		return of[0]
	}
	for _, s := range of {
		if SameName(s, name) {
			return s
		}
	}
	return name
}
