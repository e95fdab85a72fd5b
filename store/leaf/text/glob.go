package text

import (
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Paths are matched against globs from requests and from a repository's own files. A glob may contain
// * and ? and [classes] within a name, ** for any number of directories, and {a,b} for alternatives.
//
// The underlying library tries each combination of alternatives, so thirty pairs of braces would
// take years. Here a glob with too many combinations is invalid and matches nothing. All other
// globs take time proportional to glob × path.

const (
	maxGlob         = 4096 // bytes of a glob
	maxAlternatives = 256  // number of globs without braces that a glob may expand to
)

// ValidGlob reports whether a glob can be matched.
func ValidGlob(glob string) bool { return bounded(glob) && doublestar.ValidatePattern(glob) }

// MatchGlob reports whether a glob matches a whole path.
func MatchGlob(glob, path string) bool {
	if !bounded(glob) {
		return false
	}
	ok, err := doublestar.Match(glob, path)
	return ok && err == nil
}

// covers reports whether a glob matches a path or one of its ancestors.
func covers(glob, path string) bool { return MatchGlob(glob, path) || MatchGlob(glob+"/**", path) }

// IsGlob reports whether a text is a glob and not just a path.
func IsGlob(text string) bool { return strings.ContainsAny(text, `*?[{\`) }

// GlobSelects reports whether a user's glob matches a path. As in a gitignore file, a glob without a
// slash matches names at any depth. A glob with a slash matches the whole path. A directory matches
// its whole subtree. As in git, a glob also matches what is named exactly so, such as app/[id].
func GlobSelects(glob, path string) bool {
	glob = strings.TrimSuffix(glob, "/")
	whole := strings.Contains(glob, "/")
	glob = strings.TrimPrefix(glob, "/")
	if !whole {
		return strings.Contains("/"+path+"/", "/"+glob+"/") || covers("**/"+glob, path)
	}
	return strings.HasPrefix(path+"/", glob+"/") || covers(glob, path)
}

// bounded reports whether a glob is short and expands to few alternatives. It counts nested groups
// as if they were consecutive.
func bounded(glob string) bool {
	if len(glob) > maxGlob {
		return false
	}
	total := 1
	var open []int // number of alternatives of each open group
	for i := strings.IndexByte(glob, '{'); i >= 0 && i < len(glob); i++ {
		switch last := len(open) - 1; glob[i] {
		case '\\':
			i++
		case '{':
			open = append(open, 1)
		case ',':
			if last >= 0 {
				open[last]++
			}
		case '}':
			if last >= 0 {
				total *= open[last]
				if total > maxAlternatives {
					return false
				}
				open = open[:last]
			}
		}
	}
	return true
}
