package search

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"cachebro/store"

	"github.com/blevesearch/bleve/v2/index/scorch"
	"github.com/blevesearch/bleve/v2/index/scorch/mergeplan"
)

// A first index of more than largeTree files takes half a minute or more, and ranked queries find
// only files that are indexed. So it begins with the workedOn files that were changed last. The
// other files follow in path order, because neighbouring files share words.
const (
	largeTree = 100_000
	workedOn  = 5_000
)

// period is a range of change times, in ns. Both ends belong to it.
type period struct{ first, last int64 }

// periods returns the order in which the files with these change times are indexed: in a tree of
// more than large files, first the files that were changed last. It sorts changed.
func periods(changed []int64, large, recent int) []period {
	if len(changed) <= large {
		return []period{{math.MinInt64, math.MaxInt64}}
	}
	slices.Sort(changed)
	since := changed[len(changed)-recent]
	return []period{{since, math.MaxInt64}, {math.MinInt64, since - 1}}
}

// Progress returns how many files of the first index are done, and how many there are. Both are 0
// if no first index is being made.
func (x *Index) Progress() (made, of int) {
	return int(x.made.Load()), int(x.toMake.Load())
}

// first indexes every live file that no earlier attempt has indexed. It analyses a batch while the
// previous batch is being written.
func (x *Index) first(ctx context.Context) error {
	seq := x.corpus.Seq()
	var changed []int64
	if err := x.corpus.Live("", func(v store.Version) error {
		if x.searchable(v) {
			changed = append(changed, v.Stat.Mtime)
		}
		return ctx.Err()
	}); err != nil {
		return err
	}
	x.made.Store(0)
	x.toMake.Store(int64(len(changed)))
	defer x.toMake.Store(0)
	merge := x.holdMerges()
	defer merge()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	analysed := make(chan *batch) // closed by the goroutine that analyses
	var analysing sync.WaitGroup
	analysing.Go(func() {
		defer close(analysed)
		err := x.eachBatch(ctx, periods(changed, largeTree, workedOn), func(b *batch) error {
			if err := b.analyse(ctx); err != nil {
				return err
			}
			select {
			case analysed <- b:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		if err != nil {
			cancel(err)
		}
	})
	defer analysing.Wait()
	written := 0
	for b := range analysed {
		if err := b.write(0, false); err != nil {
			cancel(err)
			return err
		}
		written++
		if written == maxUnmerged {
			merge()
		}
		x.made.Add(int64(len(b.files)))
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := x.newBatch().write(seq, true); err != nil {
		return err
	}
	return x.compact(ctx, merge)
}

// errBatchFull ends the reading of a page.
var errBatchFull = errors.New("the batch is full")

// eachBatch calls fn with batches of the files that the first index must contain and that no
// earlier attempt has indexed. It reads the versions for one batch at a time, because those of
// 100,000 files took 40 MB.
func (x *Index) eachBatch(ctx context.Context, order []period, fn func(*batch) error) error {
	b, err := x.staleBatch()
	if err != nil {
		return err
	}
	for _, part := range order {
		last, more := store.Path(""), true
		for more {
			err := x.corpus.LiveAfter(last, func(v store.Version) error {
				last = v.Path
				if v.Stat.Mtime < part.first || v.Stat.Mtime > part.last || !x.searchable(v) {
					return ctx.Err()
				}
				if x.has(v) {
					x.made.Add(1)
				} else if b.take(v); b.full() {
					return errBatchFull
				}
				return ctx.Err()
			})
			more = errors.Is(err, errBatchFull)
			if more {
				err = fn(b)
				b = x.newBatch()
			}
			if err != nil {
				return err
			}
		}
	}
	return fn(b)
}

// maxUnmerged is how many segments of the first index stay unmerged until one merge at the end.
// Merging them in groups of ten before that took a third of the processor time. The segments of a
// larger tree are merged earlier, because bleve stops writing at 1,000 files.
const maxUnmerged = 100

// unmerged holds the indexes whose segments must not be merged now: it maps a *scorch.Scorch to a
// channel that is closed when merging may begin.
var unmerged sync.Map

func init() {
	scorch.RegistryEventCallbacks[callbackName] = func(e scorch.Event) bool {
		if e.Kind == scorch.EventKindPreMergeCheck {
			if over, ok := unmerged.Load(e.Scorch); ok {
				<-over.(chan struct{})
			}
		}
		return true
	}
}

// holdMerges prevents bleve from merging segments until merge is called. merge must be called
// before the index is closed. Further calls of merge have no effect.
func (x *Index) holdMerges() (merge func()) {
	s, over := x.adv, make(chan struct{})
	unmerged.Store(s, over)
	return sync.OnceFunc(func() {
		unmerged.Delete(s)
		close(over)
	})
}

// has reports whether the index has this version of a file.
func (x *table) has(v store.Version) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	f, ok := x.files[v.Path]
	return ok && f.indexed && f.hash == v.Blob && f.seq == v.Seq
}

// staleBatch returns a batch that removes the files that an earlier attempt has indexed, if they
// no longer exist.
func (x *Index) staleBatch() (*batch, error) {
	x.mu.RLock()
	known := slices.AppendSeq(slices.Collect(maps.Keys(x.files)), maps.Keys(x.binary))
	x.mu.RUnlock()
	b := x.newBatch()
	for _, p := range known {
		v, found, err := x.corpus.Current(p)
		if err != nil {
			return nil, err
		}
		if !found || !x.searchable(v) {
			b.take(store.Version{Path: p, Op: store.OpUnlink})
		}
	}
	return b, nil
}

// compact merges the segments of the first index into one, which is smaller and needs only one
// lookup per word. It first requests this merge from bleve. Then it calls merge, which allows bleve
// to begin. So bleve merges only once.
func (x *Index) compact(ctx context.Context, merge func()) error {
	s := x.adv
	one := mergeplan.SingleSegmentMergePlanOptions
	one.SegmentsPerMergeTask = 1000 // the default of 10 left a tenth of the segments unmerged
	// ForceMerge ignores ctx. It returns only when the merge has succeeded. So it never returns if
	// the directory is gone or the disk is full.
	done := make(chan error, 1)
	go func() { done <- s.ForceMerge(ctx, &one) }()
	time.AfterFunc(10*time.Millisecond, merge) // by then bleve has received the request
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
