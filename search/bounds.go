package search

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"cachebro/store"
)

// maxKept bounds the memory of the lines of one answer, in bytes: a pattern of
// one letter matches most of a tree. Beyond it lines are counted only.
const maxKept = 32 << 20

// lineCost is what a line takes beside its text.
const lineCost = 64

// room is how many more lines of a file an answer keeps.
func (q Query) room(kept int64) int {
	switch {
	case kept > maxKept:
		return 0
	case q.Limit > 0:
		return q.Limit
	}
	return math.MaxInt
}

// leftOut collects the files that a query would have searched and did not.
type leftOut struct {
	mu    sync.Mutex // guards paths
	paths [len(leftOutWhy)][]store.Path
}

// Why a file was not searched.
const (
	leftBinary = iota
	leftLarge
	leftUnread
)

var leftOutWhy = [...]string{leftBinary: "binary", leftLarge: "too large", leftUnread: "unreadable"}

func (l *leftOut) add(why int, paths ...store.Path) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.paths[why] = append(l.paths[why], paths...)
}

// String counts them by reason and names the first of each, source files before others:
// `2 binary ("a.go", "b.png"), 1 too large ("c.log")`.
func (l *leftOut) String() string {
	rank := func(p store.Path) int {
		if KindOf(string(p)) == Other {
			return 1
		}
		return 0
	}
	var parts []string
	for why, paths := range l.paths {
		if len(paths) == 0 {
			continue
		}
		slices.SortFunc(paths, func(a, b store.Path) int {
			return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
		})
		names := make([]string, 0, 4)
		for _, p := range paths[:min(3, len(paths))] {
			names = append(names, strconv.Quote(string(p)))
		}
		if len(paths) > 3 {
			names = append(names, "…")
		}
		parts = append(parts, fmt.Sprintf("%d %s (%s)", len(paths), leftOutWhy[why], strings.Join(names, ", ")))
	}
	return strings.Join(parts, ", ")
}

func joinWarnings(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}
