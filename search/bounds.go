package search

import (
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

// largeFiles collects text files that were too large to read.
type largeFiles struct {
	mu    sync.Mutex // guards paths
	paths []store.Path
}

func (l *largeFiles) add(p store.Path) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.paths = append(l.paths, p)
}

func (l *largeFiles) warning() string {
	if len(l.paths) == 0 {
		return ""
	}
	slices.Sort(l.paths)
	more := ""
	if n := len(l.paths) - 3; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	names := make([]string, 0, 3)
	for _, p := range l.paths[:min(3, len(l.paths))] {
		names = append(names, strconv.Quote(string(p)))
	}
	return "not searched because they are too large: " + strings.Join(names, ", ") + more
}

func joinWarnings(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}
