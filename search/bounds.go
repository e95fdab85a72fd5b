package search

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"cachebro/store"
)

// maxKept bounds the memory for the lines of one answer, in bytes. Further lines are only counted,
// because a pattern of one letter matches most lines.
const maxKept = 32 << 20

// lineCost is the memory that a line takes in addition to its text, in bytes.
const lineCost = 64

// readAtOnce is how many files a search reads before it checks whether it has enough lines. For a
// word that occurs in all of 100,000 files, reading all of them for an answer of 20 lines took
// 2.7 s.
const readAtOnce = 1024

// scanFor bounds a search without an index, which reads every file. During the first indexing of
// 300,000 files, such a search took 82 s. scanFor is a variable only for tests.
var scanFor = 5 * time.Second

// room returns how many lines of the next file an answer can still hold.
func (q Query) room(kept int64) int {
	switch {
	case kept > maxKept:
		return 0
	case q.Limit > 0:
		return q.Limit
	}
	return math.MaxInt
}

// leftOut collects the files in a query's scope that were not searched.
type leftOut struct {
	mu    sync.Mutex // guards paths
	paths [len(leftOutWhy)][]store.Path
}

// The reasons why a file was not searched.
const (
	leftBinary = iota
	leftLarge
	leftUnread
	leftUnkept
	leftWaiting
	leftBeyond
)

var leftOutWhy = [...]string{
	leftBinary: "binary", leftLarge: "too large", leftUnread: "unreadable", leftUnkept: "content not saved", leftWaiting: "not indexed yet",
	leftBeyond: fmt.Sprintf("beyond the %d most likely files", maxParsed),
}

func (l *leftOut) add(why int, paths ...store.Path) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.paths[why] = append(l.paths[why], paths...)
}

// failed adds a file that could not be read, if it still exists.
func (l *leftOut) failed(p store.Path, err error) {
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, ErrTooLarge):
		l.add(leftLarge, p)
	case errors.Is(err, ErrBinary):
		l.add(leftBinary, p)
	default:
		l.add(leftUnread, p)
	}
}

// String returns the number of files for each reason, and the names of the first few of them,
// source files first: `2 binary ("a.go", "b.png"), 1 too large ("c.log")`.
func (l *leftOut) String() (all string) {
	for why, paths := range l.paths {
		all = NotSearched(all, leftOutWhy[why], paths)
	}
	return all
}

// NotSearched adds files that were not searched to what Result.NotSearched has. why is the reason.
func NotSearched(before, why string, paths []store.Path) string {
	if len(paths) == 0 {
		return before
	}
	rank := func(p store.Path) int {
		if KindOf(string(p)) == Other {
			return 1
		}
		return 0
	}
	slices.SortFunc(paths, func(a, b store.Path) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
	})
	paths = slices.Compact(paths) // a file is listed once for each of its contents
	names := make([]string, 0, 4)
	for _, p := range paths[:min(3, len(paths))] {
		names = append(names, strconv.Quote(string(p)))
	}
	if len(paths) > 3 {
		names = append(names, "…")
	}
	return strings.TrimPrefix(fmt.Sprintf("%s, %d %s (%s)", before, len(paths), why, strings.Join(names, ", ")), ", ")
}

// JoinNotSearched joins the lists of two searches for the same query. Usually one of them begins with
// the other.
func JoinNotSearched(a, b string) string {
	switch {
	case strings.HasPrefix(a, b):
		return a
	case strings.HasPrefix(b, a):
		return b
	}
	return a + ", " + b
}

// NotIndexed returns the number and the names of the files in a query's scope whose newest text is
// not in the index. A query by words cannot find such a text. NotIndexed returns "" if there are no
// such files.
func (x *Index) NotIndexed(q Query) string {
	var left leftOut
	left.addBinary(x, q.admits)
	x.waiting(func(p store.Path) {
		if q.admits(p, KindOf(string(p))) {
			left.add(leftWaiting, p)
		}
	})
	x.mu.RLock()
	defer x.mu.RUnlock()
	for p := range x.loose {
		f := x.files[p]
		switch {
		case !q.admits(p, f.kind) || f.size == 0:
		case f.size > int64(x.opt.MaxFile):
			left.add(leftLarge, p)
		default:
			left.add(leftUnread, p)
		}
	}
	return left.String()
}

// waiting calls fn with the files whose newest text is not in the index.
func (x *table) waiting(fn func(store.Path)) {
	x.mu.RLock()
	ready, seq := x.ready, x.seq
	waits := slices.Collect(maps.Keys(x.held))
	x.mu.RUnlock()
	if ready {
		for p, f := range x.newer(seq) {
			if f.size > 0 && !slices.Contains(waits, p) {
				waits = append(waits, p)
			}
		}
		for _, p := range waits {
			fn(p)
		}
		return
	}
	_ = x.corpus.Live("", func(v store.Version) error {
		x.mu.RLock()
		f, known := x.files[v.Path]
		_, binary := x.binary[v.Path]
		x.mu.RUnlock()
		current := known && f.seq >= v.Seq
		if x.searchable(v) && v.Stat.Size > 0 && !binary && !current {
			fn(v.Path)
		}
		return nil
	})
}

// addBinary adds the files that the index knows to be binary, except those for which the filter
// returns false.
func (l *leftOut) addBinary(x *Index, which func(store.Path, Kind) bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for p := range x.binary {
		if which(p, KindOf(string(p))) {
			l.add(leftBinary, p)
		}
	}
}

func joinWarnings(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}
