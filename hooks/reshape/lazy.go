package reshape

import (
	"regexp"
	"sync"
)

// lazy compiles an expression when it is first used: hooks, which start for every
// tool call, need few of them.
func lazy(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
