package search

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cachebro/store"
	"cachebro/store/leaf/text"

	"golang.org/x/sync/errgroup"
)

// Past is a matching line that older versions of a file have.
type Past struct {
	Path  store.Path
	First uint64 // the oldest version of the last run of matching versions (successive versions that have the line)
	Last  uint64 // the newest version with a match
	Gone  uint64 // the version that removed the match
	No    int    // the number of the first matching line in Last
	Text  string
	// Versions is the number of versions in that run.
	Versions int
}

// PastResult is the answer to a historical query, ordered by the time at which the match was
// removed, newest first.
type PastResult struct {
	Hits     []Past
	Versions int  // number of contents searched
	Cut      bool // the search ran out of time before the oldest version
	// NotSearched has the number and the names of the files with contents that were not searched.
	NotSearched string
}

// A historical query stops after pastTime. So that a small history is searched completely even on a
// slow machine, the query continues until it has searched minPastContents contents, but no longer
// than maxPastTime. Every 64 versions passed, and every 64 KiB searched, also count as one content.
const (
	pastTime        = time.Second
	maxPastTime     = 5 * time.Second
	minPastContents = 1024
)

// pastBlock is how many versions of a file are searched together, oldest first.
const pastBlock = 64

// pastPage is how many versions are read from the log at once.
const pastPage = 4096

// past is one running historical query.
type past struct {
	x      *Index
	began  time.Time
	looked atomic.Int64 // number of contents searched
	passed atomic.Int64 // number of versions passed
	bytes  atomic.Int64 // bytes of the contents searched

	mu   sync.Mutex // guards hits
	hits []Past
	left leftOut // a file is listed once per reason
}

// outOfTime reports whether the query has to stop because of the time.
func (h *past) outOfTime() bool {
	took := time.Since(h.began)
	return took > maxPastTime || took > pastTime && h.looked.Load()+h.passed.Load()/64+h.bytes.Load()>>16 >= minPastContents
}

// enough reports whether at least limit matches were removed after seq.
func (h *past) enough(limit int, seq uint64) bool {
	if limit <= 0 {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, hit := range h.hits {
		if hit.Gone > seq {
			n++
		}
	}
	return n >= limit
}

// History finds text in older versions and deleted files. It goes backwards through the log, and
// through each file's versions from the newest to the one in which the match first appeared, until
// it has limit hits or the time is up. To search a version, History fetches its content. Contents
// are fetched in the order of the log, so that the store's cache can serve delta chains.
func (x *Index) History(ctx context.Context, q Query, limit int) (PastResult, error) {
	auto, _, must, err := compile(q)
	if err != nil {
		return PastResult{}, err
	}
	if err := checkGlobs(q); err != nil {
		return PastResult{}, err
	}
	h := &past{x: x, began: time.Now()}
	cut := false
	seen := map[store.Path]bool{}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(x.workers())
	below := store.Path(strings.TrimSuffix(q.Path, "/"))
	if below == "." {
		below = ""
	}
	err = x.corpus.Changed(below, func(v store.Version) bool {
		if h.passed.Add(1)%256 == 0 && h.outOfTime() {
			cut = true
		}
		if cut || seen[v.Path] {
			return !cut
		}
		seen[v.Path] = true
		if v.Class != 0 || x.corpus.Secret(v.Path) || !q.admits(v.Path, KindOf(string(v.Path))) {
			return true
		}
		if gctx.Err() != nil || h.enough(limit, v.Seq) {
			return false
		}
		cut = h.outOfTime()
		if cut {
			return false
		}
		g.Go(func() error {
			vs, err := x.corpus.History(v.Path, false)
			vs = store.WithoutTemporary(vs)
			if err != nil || len(vs) < 2 {
				return err
			}
			ms := make([]*matcher, 1)
			if len(vs) > 4*pastBlock { // use several workers for one file
				ms = make([]*matcher, x.workers())
			}
			for i := range ms {
				ms[i] = newMatcher(q, auto.Clone(), must)
				ms[i].whole = true // so that lines can be compared with those of the newest version
			}
			return h.searchVersions(gctx, vs, ms)
		})
		return true
	})
	switch gerr := g.Wait(); {
	case errors.Is(gerr, errPastCut):
		cut = true
	case gerr != nil:
		return PastResult{}, gerr
	}
	err = cmp.Or(err, ctx.Err())
	if err != nil {
		return PastResult{}, err
	}
	slices.SortFunc(h.hits, func(a, b Past) int {
		return cmp.Or(cmp.Compare(b.Gone, a.Gone), strings.Compare(string(a.Path), string(b.Path)))
	})
	if limit > 0 && len(h.hits) > limit {
		h.hits = h.hits[:limit]
	}
	return PastResult{Hits: h.hits, Versions: int(h.looked.Load()), Cut: cut, NotSearched: h.left.String()}, nil
}

// errPastCut means that the time was up before a file's oldest version was searched.
var errPastCut = errors.New("the time is up")

// contentLines holds the matching lines of the searched contents.
type contentLines map[store.Hash][]Line

// look searches the contents of versions that are not in known. Each matcher gets a range of them,
// in order.
func (h *past) look(vs []store.Version, known contentLines, ms []*matcher) {
	var blobs []store.Version
	for _, v := range vs {
		if _, ok := known[v.Blob]; !ok && !v.Deleted() && v.Blob != (store.Hash{}) {
			known[v.Blob] = nil
			blobs = append(blobs, v)
			h.bytes.Add(v.Stat.Size)
		}
	}
	h.looked.Add(int64(len(blobs)))
	found := make([][]Line, len(blobs))
	var wg sync.WaitGroup
	for w, part := range shares(len(blobs), len(ms)) {
		wg.Go(func() {
			for i := part[0]; i < part[1]; i++ {
				content, err := h.x.corpus.Content(blobs[i].Blob)
				if err != nil {
					h.left.add(leftUnread, blobs[i].Path)
					continue
				}
				shown, ok := text.Shown(content)
				if !ok {
					h.left.add(leftBinary, blobs[i].Path)
					continue
				}
				found[i], _ = ms[w].lines(blobs[i].Path, shown, math.MaxInt)
			}
		})
	}
	wg.Wait()
	for i, v := range blobs {
		known[v.Blob] = found[i]
	}
}

// searchVersions searches the versions of one path. vs has the oldest version first.
func (h *past) searchVersions(ctx context.Context, vs []store.Version, ms []*matcher) error {
	// Versions that share a content (a chmod, a rename back) are searched once.
	known := contentLines{}
	has := func(v store.Version) []Line {
		if v.Deleted() || v.Blob == (store.Hash{}) {
			if v.NoContent != "" {
				h.left.add(leftUnkept, v.Path)
			}
			return nil
		}
		if _, ok := known[v.Blob]; !ok {
			h.look([]store.Version{v}, known, ms)
		}
		return known[v.Blob]
	}
	still := map[string]bool{} // matching lines of the newest version
	for _, l := range has(vs[len(vs)-1]) {
		still[string(bytes.TrimSpace(l.Text))] = true
	}
	var run *Past
	defer func() {
		if run != nil {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.hits = append(h.hits, *run)
		}
	}()
	for i := len(vs) - 2; i >= 0; i-- {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if (len(vs)-2-i)%pastBlock == 0 {
			if h.outOfTime() {
				return errPastCut
			}
			// A content is stored as a difference to its predecessor. In order of time, rebuilding
			// each content takes one step. In reverse order, each content would have to be rebuilt
			// from the last content that is stored in full.
			h.look(vs[max(0, i-pastBlock+1):i+1], known, ms)
		}
		lines := has(vs[i])
		gained := lines
		if len(still) > 0 { // lines that the newest version also has do not count
			gained = slices.DeleteFunc(slices.Clone(lines), func(l Line) bool { return still[string(bytes.TrimSpace(l.Text))] })
		}
		switch {
		case len(gained) > 0 && run == nil:
			run = &Past{Path: vs[i].Path, First: vs[i].Seq, Last: vs[i].Seq, Gone: vs[i+1].Seq, No: gained[0].No, Text: string(gained[0].Text), Versions: 1}
		case len(gained) > 0:
			run.First, run.Versions = vs[i].Seq, run.Versions+1
		case run != nil:
			return nil
		}
	}
	return nil
}
