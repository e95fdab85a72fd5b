package search

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"cachebro/store"
	"cachebro/store/leaf/text"

	"github.com/RoaringBitmap/roaring/v2"
	index "github.com/blevesearch/bleve_index_api"
	"golang.org/x/sync/errgroup"
)

// Line is one matching line.
type Line struct {
	_    struct{} `cbor:",toarray"` // in the cache of answers
	Path store.Path
	No   int // 1-based
	Text []byte
	// At is approximately the offset of the match in Text. If the line is longer than maxLineText,
	// Text is only the part around the match, Before is the offset of that part in the line, and
	// Size is the length of the line.
	At, Before, Size int
}

// maxLineText is how many bytes of a line are kept. Nobody reads more than that of a line in a
// minified file.
const maxLineText = 4096

// around returns the part of a line around a match at an offset.
func around(line []byte, at int) (l Line) {
	if len(line) <= maxLineText {
		return Line{Text: line, At: at}
	}
	from := max(0, min(at-maxLineText/2, len(line)-maxLineText))
	end := from + maxLineText
	for i := 0; i < utf8.UTFMax && from > 0 && !utf8.RuneStart(line[from]); i++ {
		from--
	}
	for i := 0; i < utf8.UTFMax && end < len(line) && !utf8.RuneStart(line[end]); i++ {
		end--
	}
	return Line{Text: line[from:end], At: at - from, Before: from, Size: len(line)}
}

// Result is the answer to an exact query.
type Result struct {
	Lines []Line // in the order of path and line
	Files int    // files with a match
	Total int    // matching lines; greater than the number of Lines if Truncated
	// Truncated means that Lines does not have all matching lines, because of the query's limit or
	// the memory limit of an answer.
	Truncated bool
	// AtLeast means that some files were not read, because there were enough lines or the search
	// took too long. Files and Total count only the files that were read.
	AtLeast bool
	// Candidates is the number of files that were read.
	Candidates int
	Warning    string
	// NotSearched has the number and the names of the files in the query's scope that were not
	// searched, or is "".
	NotSearched string
}

// foundIn is the result of searching one file.
type foundIn struct {
	path  store.Path
	lines []Line
	total int
}

// Grep answers an exact query with the matching lines of the present files.
func (x *Index) Grep(ctx context.Context, q Query) (Result, error) {
	auto, want, must, err := compile(q)
	if err != nil {
		return Result{}, err
	}
	if err := checkGlobs(q); err != nil {
		return Result{}, err
	}
	began := time.Now()
	paths, binary, warning := x.candidates(want, q)
	if q.Enough > 0 && q.Limit == 0 { // a caller that wants only the best lines wants code first
		slices.SortStableFunc(paths, func(a, b store.Path) int {
			return cmp.Compare(kindWeight[KindOf(string(b))], kindWeight[KindOf(string(a))])
		})
	}
	var left leftOut
	left.add(leftBinary, binary...)
	kept := new(atomic.Int64)
	found := make([]foundIn, 0, min(len(paths), readAtOnce))
	lines := 0
	late := func() bool { return warning != "" && time.Since(began) > scanFor }
	for len(found) < len(paths) && (q.Enough <= 0 || lines < q.Enough) && !late() {
		more, err := x.findIn(ctx, q, paths[len(found):min(len(found)+readAtOnce, len(paths))], auto, must, kept, &left)
		if err != nil {
			return Result{}, err
		}
		found = append(found, more...)
		for _, f := range more {
			lines += f.total
		}
	}
	r := Result{Candidates: len(found), Warning: warning, AtLeast: len(found) < len(paths), NotSearched: left.String()}
	if r.AtLeast && late() {
		r.Warning = joinWarnings(r.Warning, fmt.Sprintf("only %d of %d files were searched, because reading all of them takes too long; ask again when the index is complete (cachebro status)", len(found), len(paths)))
	}
	slices.SortFunc(found, func(a, b foundIn) int { return strings.Compare(string(a.path), string(b.path)) })
	for _, f := range found {
		if f.total == 0 {
			continue
		}
		r.Files++
		r.Total += f.total
		if r.Truncated {
			continue
		}
		if q.Limit > 0 {
			f.lines = f.lines[:min(len(f.lines), q.Limit-len(r.Lines))]
		}
		r.Lines = append(r.Lines, f.lines...)
		r.Truncated = len(f.lines) < f.total
	}
	if r.Truncated && kept.Load() > maxKept {
		r.Warning = joinWarnings(r.Warning, "more lines match than one answer holds; the rest was only counted")
	}
	return r, nil
}

// findIn searches files and returns a result for each of them.
func (x *Index) findIn(ctx context.Context, q Query, paths []store.Path, auto *automaton, must string, kept *atomic.Int64, left *leftOut) ([]foundIn, error) {
	found := make([]foundIn, len(paths))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(x.workers())
	for _, part := range shares(len(paths), 4*x.workers()) {
		g.Go(func() error {
			m := newMatcher(q, auto.Clone(), must)
			for i := part[0]; i < part[1]; i++ {
				if gctx.Err() != nil {
					return gctx.Err()
				}
				f := &found[i]
				f.path = paths[i]
				content, err := x.corpus.Read(f.path, m.read)
				if err != nil {
					left.failed(f.path, err)
					x.opt.Logger.Debug("search: read", "path", f.path, "err", err)
					continue
				}
				m.read = content
				shown, ok := text.Shown(content)
				if !ok {
					left.add(leftBinary, f.path)
					continue
				}
				f.lines, f.total = m.lines(f.path, shown, q.room(kept.Load()))
				for _, l := range f.lines {
					kept.Add(int64(len(l.Text)) + lineCost)
				}
			}
			return nil
		})
	}
	return found, g.Wait()
}

// Check returns nil if an exact query is valid, otherwise an error with a hint.
func Check(q Query) error {
	if _, _, _, err := compile(q); err != nil {
		return err
	}
	return checkGlobs(q)
}

func checkGlobs(q Query) error {
	for _, g := range slices.Concat(q.Include, q.Exclude) {
		if !text.ValidGlob(g) {
			return fmt.Errorf("bad glob %q; hint: try *.go or src/**/*.ts", g)
		}
	}
	return nil
}

// shares splits the range from 0 to n into ranges of about equal length, at most as many as parts
// says.
func shares(n, parts int) [][2]int {
	var cut [][2]int
	for i := range parts {
		if a, b := n*i/parts, n*(i+1)/parts; a < b {
			cut = append(cut, [2]int{a, b})
		}
	}
	return cut
}

// admits reports whether a path passes a query's filters.
func (q Query) admits(p store.Path, kind Kind) bool {
	if q.Kind != "" && kind != q.Kind {
		return false
	}
	if q.Path != "" && q.Path != "." && string(p) != q.Path && !strings.HasPrefix(string(p), strings.TrimSuffix(q.Path, "/")+"/") {
		return false
	}
	return (len(q.Include) == 0 || matchGlob(q.Include, p)) && !(len(q.Exclude) > 0 && matchGlob(q.Exclude, p))
}

func matchGlob(globs []string, p store.Path) bool {
	return slices.ContainsFunc(globs, func(g string) bool { return text.GlobSelects(g, string(p)) })
}

// candidates returns the files that may contain a match, ordered by path, and the files in the
// query's scope that are known to be binary.
func (x *Index) candidates(want *need, q Query) (paths, binary []store.Path, warning string) {
	if want.op == needNone {
		return nil, nil, ""
	}
	take := map[store.Path]bool{}
	// Read this before the postings, so that files indexed in between are candidates too.
	x.mu.RLock()
	ready, seq, block := x.ready, x.seq, x.terms.block
	for p := range x.loose {
		if q.admits(p, x.files[p].kind) {
			take[p] = true
		}
	}
	notText := map[store.Path]bool{}
	for p := range x.binary {
		if q.admits(p, KindOf(string(p))) {
			notText[p] = true
		}
	}
	x.mu.RUnlock()
	hits, ok, err := map[store.Path]bool(nil), false, error(nil)
	if ready && want.op != needAll {
		hits, ok, err = x.lookUp(want, block)
	}
	if err != nil {
		warning = "the index could not be read (" + err.Error() + "); every file was scanned"
		x.Poke()
	} else if !ready {
		warning = "the search index does not answer yet; every file was scanned"
		if p := x.problem.Load(); p != nil {
			warning = "the search index does not answer yet (" + *p + "); every file was scanned"
		}
	}
	x.mu.RLock()
	if ok {
		for p := range hits {
			if f, known := x.files[p]; known && q.admits(p, f.kind) {
				take[p] = true
			}
		}
	}
	if !ok {
		for p, f := range x.files {
			if q.admits(p, f.kind) {
				take[p] = true
			}
		}
	}
	x.mu.RUnlock()
	// Files that changed after the index was written are always candidates.
	for ready {
		newer, err := x.corpus.Since(seq, pastPage)
		if err != nil || len(newer) == 0 {
			break
		}
		for _, v := range newer {
			delete(notText, v.Path)
			seq = v.Seq
			if x.searchable(v) && q.admits(v.Path, KindOf(string(v.Path))) {
				take[v.Path] = true
			}
		}
	}
	if !ready {
		_ = x.corpus.Live("", func(v store.Version) error {
			if x.searchable(v) && v.Stat.Size > 0 && q.admits(v.Path, KindOf(string(v.Path))) {
				take[v.Path] = true
			}
			return nil
		})
	}
	for p := range take {
		paths = append(paths, p)
		delete(notText, p)
	}
	slices.Sort(paths)
	return paths, slices.Collect(maps.Keys(notText)), warning
}

// lookUp returns the files that satisfy a need according to the postings. ok is false if the need
// does not exclude enough files.
func (x *Index) lookUp(want *need, block []byte) (hits map[store.Path]bool, ok bool, err error) {
	reader, err := x.reader()
	if err != nil {
		return nil, false, err
	}
	defer reader.Close()
	set, ok, err := x.eval(reader, want, block)
	if err != nil || !ok {
		return nil, false, err
	}
	hits = map[store.Path]bool{}
	for it := set.Iterator(); it.HasNext(); {
		id, err := reader.ExternalID(index.NewIndexInternalID(nil, uint64(it.Next())))
		if err != nil {
			return nil, false, err
		}
		path, _, _ := strings.Cut(id, "\x00")
		hits[store.Path(path)] = true
	}
	return hits, true, nil
}

func (x *Index) eval(r index.IndexReader, n *need, block []byte) (*roaring.Bitmap, bool, error) {
	switch n.op {
	case needWord:
		words, ok := matchTerms(block, n.word)
		if !ok {
			return nil, false, nil
		}
		set := roaring.New()
		for _, w := range words {
			if err := postings(r, w, set); err != nil {
				return nil, false, err
			}
		}
		return set, true, nil
	case needAnd:
		var all *roaring.Bitmap
		for _, sub := range cheapFirst(n.subs) {
			if all != nil && all.GetCardinality() <= fewFiles {
				break // reading these files costs less than reading more postings
			}
			set, ok, err := x.eval(r, sub, block)
			if err != nil {
				return nil, false, err
			}
			if !ok {
				continue // this need does not exclude enough files, but the others may
			}
			if all == nil {
				all = set
			} else {
				all.And(set)
			}
			if all.IsEmpty() {
				break
			}
		}
		return all, all != nil, nil
	case needOr:
		any := roaring.New()
		for _, sub := range n.subs {
			set, ok, err := x.eval(r, sub, block)
			if err != nil || !ok {
				return nil, false, err
			}
			any.Or(set)
		}
		return any, true, nil
	}
	return nil, false, nil
}

// fewFiles is a number of candidates so small that excluding more of them is not worth the effort.
const fewFiles = 24

// cheapFirst orders needs by the cost of their postings. A whole word is one term, a long part of a
// word matches few terms, and a short part matches thousands.
func cheapFirst(subs []*need) []*need {
	cost := func(n *need) int {
		switch {
		case n.op != needWord:
			return 1000
		case n.word.atStart && n.word.atEnd:
			return -len(n.word.text)
		}
		return 100 - len(n.word.text)
	}
	subs = slices.Clone(subs)
	slices.SortStableFunc(subs, func(a, b *need) int { return cost(a) - cost(b) })
	return subs
}

func postings(r index.IndexReader, word string, set *roaring.Bitmap) error {
	tfr, err := r.TermFieldReader(context.Background(), []byte(word), fieldWord, false, false, false)
	if err != nil {
		return err
	}
	return eachDoc(tfr, func(d *index.TermFieldDoc) error {
		set.Add(uint32(d.ID.Value()))
		return nil
	})
}

// eachDoc calls fn with each document of tfr until fn returns an error, and closes tfr. fn must not
// keep its argument.
func eachDoc(tfr index.TermFieldReader, fn func(*index.TermFieldDoc) error) error {
	defer tfr.Close()
	var pre index.TermFieldDoc
	for {
		d, err := tfr.Next(pre.Reset())
		if err != nil || d == nil {
			return err
		}
		if err := fn(d); err != nil {
			return err
		}
	}
}
