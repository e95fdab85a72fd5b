package text

import (
	"regexp"
	"sync"
)

// This file compiles regular expressions when they are first used. A hook is a
// process of its own for every tool call, it needs few of the expressions that are
// linked into it, and each costs tens of microseconds. It stands below all rooms of
// observe → version → index → serve. No state but the compiled expressions.

// LazyRegexp is regexp.MustCompile, at the first call.
func LazyRegexp(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
