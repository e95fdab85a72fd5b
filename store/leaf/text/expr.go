package text

import (
	"regexp"
	"sync"
)

// This file compiles regular expressions on first use. Every tool call starts a hook as a separate
// process. A hook needs few of the expressions linked into it, and compiling one takes tens of
// microseconds.

// LazyRegexp returns a function that compiles expr, like regexp.MustCompile, on its first call.
func LazyRegexp(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
