package search

import (
	"bytes"
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"cachebro/store"
	"cachebro/store/text"

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
}

// pastTime bounds a historical query.
const pastTime = 5 * time.Second

// pastBlock is how many versions of a file are fetched in the order of time.
const pastBlock = 64

// pastPage is how many versions are read from the log at once.
const pastPage = 4096

// History finds text in versions that are no longer the newest, and in deleted files.
// It searches files in parallel, each from its newest version to the oldest, and no
// further than to where the match began. The cost is one content for each version
// that is looked at; contents are fetched in the log's order, so that the store's
// cache serves the delta chains.
func (x *Index) History(ctx context.Context, q Query, limit int) (PastResult, error) {
	auto, _, must, err := compile(q)
	if err != nil {
		return PastResult{}, err
	}
	if err := checkGlobs(q); err != nil {
		return PastResult{}, err
	}
	byPath := map[store.Path][]store.Version{}
	for seq := uint64(0); ; {
		vs, err := x.corpus.Since(seq, pastPage)
		if err != nil {
			return PastResult{}, err
		}
		if len(vs) == 0 || ctx.Err() != nil {
			break
		}
		for _, v := range vs {
			seq = v.Seq
			if v.Class == 0 && !x.corpus.Secret(v.Path) && q.admits(v.Path, KindOf(string(v.Path))) {
				byPath[v.Path] = append(byPath[v.Path], v)
			}
		}
	}
	var paths []store.Path
	for p, vs := range byPath {
		if byPath[p] = store.Lasting(vs); len(byPath[p]) > 1 {
			paths = append(paths, p)
		}
	}
	// What changed last is looked at first, should the time not do.
	slices.SortFunc(paths, func(a, b store.Path) int {
		va, vb := byPath[a], byPath[b]
		return int(int64(vb[len(vb)-1].Seq) - int64(va[len(va)-1].Seq))
	})
	limited, cancel := context.WithTimeout(ctx, pastTime)
	defer cancel()
	var mu sync.Mutex
	var r PastResult
	g := new(errgroup.Group)
	g.SetLimit(x.workers())
	for _, p := range paths {
		g.Go(func() error {
			ms := make([]*matcher, max(1, x.workers()/len(paths))) // few files: several workers for each
			for i := range ms {
				ms[i] = newMatcher(q, auto.clone(), must)
			}
			hits, looked, done := x.pastOf(limited, byPath[p], ms)
			mu.Lock()
			defer mu.Unlock()
			r.Hits = append(r.Hits, hits...)
			r.Versions += looked
			r.Cut = r.Cut || !done
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return r, err
	}
	if ctx.Err() != nil {
		return r, ctx.Err()
	}
	slices.SortFunc(r.Hits, func(a, b Past) int {
		if a.Gone != b.Gone {
			if a.Gone > b.Gone {
				return -1
			}
			return 1
		}
		return strings.Compare(string(a.Path), string(b.Path))
	})
	if limit > 0 && len(r.Hits) > limit {
		r.Hits = r.Hits[:limit]
	}
	return r, nil
}

// contentLines are the matching lines of contents that were looked at.
type contentLines map[store.Hash][]Line

// look looks at the contents of versions that are not known yet, in their order,
// a run of them for each matcher.
func (x *Index) look(vs []store.Version, known contentLines, ms []*matcher) {
	var blobs []store.Version
	for _, v := range vs {
		if _, ok := known[v.Blob]; !ok && !v.Deleted() && v.Blob != (store.Hash{}) {
			known[v.Blob] = nil
			blobs = append(blobs, v)
		}
	}
	found := make([][]Line, len(blobs))
	var wg sync.WaitGroup
	for w, part := range shares(len(blobs), len(ms)) {
		wg.Go(func() {
			for i := part[0]; i < part[1]; i++ {
				if content, err := x.corpus.Content(blobs[i].Blob); err == nil && !text.Binary(content) {
					found[i], _ = ms[w].lines(blobs[i].Path, content, math.MaxInt)
				}
			}
		})
	}
	wg.Wait()
	for i, v := range blobs {
		known[v.Blob] = found[i]
	}
}

// pastOf goes through one path's versions, oldest first as given.
func (x *Index) pastOf(ctx context.Context, vs []store.Version, ms []*matcher) (hits []Past, looked int, done bool) {
	// Two versions with one content (a chmod, a rename back) are looked at once.
	known := contentLines{}
	defer func() { looked = len(known) }()
	has := func(v store.Version) []Line {
		if v.Deleted() || v.Blob == (store.Hash{}) {
			return nil
		}
		if _, ok := known[v.Blob]; !ok {
			x.look([]store.Version{v}, known, ms)
		}
		return known[v.Blob]
	}
	newest := has(vs[len(vs)-1])
	var run *Past
	for i := len(vs) - 2; i >= 0; i-- {
		if ctx.Err() != nil {
			return hits, looked, false
		}
		if (len(vs)-2-i)%pastBlock == 0 {
			// Contents are kept as differences to their predecessors, so in
			// the order of time each costs one step; backwards it would cost
			// the way from the last whole one, each time.
			x.look(vs[max(0, i-pastBlock+1):i+1], known, ms)
		}
		lines := has(vs[i])
		gained := lines
		if len(newest) > 0 { // still there: only what is no longer there counts
			gained = slices.DeleteFunc(slices.Clone(lines), func(l Line) bool {
				return slices.ContainsFunc(newest, func(n Line) bool { return bytes.Equal(bytes.TrimSpace(n.Text), bytes.TrimSpace(l.Text)) })
			})
		}
		switch {
		case len(gained) > 0 && run == nil:
			run = &Past{Path: vs[i].Path, First: vs[i].Seq, Last: vs[i].Seq, Gone: vs[i+1].Seq, No: gained[0].No, Text: string(gained[0].Text), Versions: 1}
		case len(gained) > 0:
			run.First, run.Versions = vs[i].Seq, run.Versions+1
		case run != nil:
			return append(hits, *run), looked, true
		}
	}
	if run != nil {
		hits = append(hits, *run)
	}
	return hits, looked, true
}
