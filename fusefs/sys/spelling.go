//go:build linux || darwin

package sys

import (
	"strings"

	"golang.org/x/text/unicode/norm"
)

// SameName reports whether a volume that ignores case and normalises takes two names for
// one. Volumes differ in what they fold (ß and ss, characters that are ignored), so this
// is only used where the volume itself cannot be asked: for names that do not exist, and
// between several names of one file.
func SameName(a, b string) bool {
	return a == b || strings.EqualFold(norm.NFD.String(a), norm.NFD.String(b))
}

// spelling chooses, among the names that an inode has in a directory, the one that matches name.
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
