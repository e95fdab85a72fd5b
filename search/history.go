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

// Past is a line of an older version of a file.
type Past struct {
	Path  store.Path
	First uint64 // the oldest version of the last run of versions that have a match
	Last  uint64 // the newest version that has one
	Gone  uint64 // the version that took it away; 0: the newest version has it
	No    int    // of the first matching line in Last
	Text  string
	// Versions is how many of that run have it.
	Versions int
}

// PastResult of a historical query, what went away last first.
type PastResult struct {
	Hits     []Past
	Versions int  // contents looked at
	Cut      bool // the time was up before the oldest
	// NotSearched counts and names the files with contents that were not looked into.
	NotSearched string
}

// A historical query looks for pastTime, and a small history is looked at whole even
// where the machine is slow: until pastLeast contents, or 64 times as many versions, or 64 KiB
// for each, were read, for pastMost.
const (
	pastTime  = time.Second
	pastMost  = 5 * time.Second
	pastLeast = 1024
)

// pastBlock is how many versions of a file are fetched in the order of time.
const pastBlock = 64

// pastPage is how many versions are read from the log at once.
const pastPage = 4096

// past is one historical query.
type past struct {
	x      *Index
	began  time.Time
	looked atomic.Int64 // contents
	passed atomic.Int64 // versions
	bytes  atomic.Int64 // of the contents looked at

	mu   sync.Mutex // guards hits
	hits []Past
	left leftOut // each file once for a reason
}

// over reports whether the time is up.
func (h *past) over() bool {
	took := time.Since(h.began)
	return took > pastMost || took > pastTime && h.looked.Load()+h.passed.Load()/64+h.bytes.Load()>>16 >= pastLeast
}

// enough reports whether a limit is reached by what went away after seq.
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

// History finds text in versions that are no longer the newest, and in deleted files.
// It goes through the log from its end, and through each file that it meets from its
// newest version to the oldest, no further than to where the match began, until the
// limit is reached or the time is up. The cost is one content for each version that is
// looked at; contents are fetched in the log's order, so that the store's cache serves
// the delta chains.
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
		if h.passed.Add(1)%256 == 0 && h.over() {
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
		cut = h.over()
		if cut {
			return false
		}
		g.Go(func() error {
			vs, err := x.corpus.History(v.Path, false)
			vs = store.Lasting(vs)
			if err != nil || len(vs) < 2 {
				return err
			}
			ms := make([]*matcher, 1)
			if len(vs) > 4*pastBlock { // several workers for one file
				ms = make([]*matcher, x.workers())
			}
			for i := range ms {
				ms[i] = newMatcher(q, auto.Clone(), must)
				ms[i].whole = true // they are compared with what there is now
			}
			return h.of(gctx, vs, ms)
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

// errPastCut: the time was up.
var errPastCut = errors.New("the time is up")

// contentLines are the matching lines of contents that were looked at.
type contentLines map[store.Hash][]Line

// look looks at the contents of versions that are not known yet, in their order,
// a run of them for each matcher.
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

// of goes through one path's versions, oldest first as given.
func (h *past) of(ctx context.Context, vs []store.Version, ms []*matcher) error {
	// Two versions with one content (a chmod, a rename back) are looked at once.
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
	still := map[string]bool{} // lines of the newest version
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
			if h.over() {
				return errPastCut
			}
			// Contents are kept as differences to their predecessors, so in
			// the order of time each costs one step; backwards it would cost
			// the way from the last whole one, each time.
			h.look(vs[max(0, i-pastBlock+1):i+1], known, ms)
		}
		lines := has(vs[i])
		gained := lines
		if len(still) > 0 { // only what is no longer there counts
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
