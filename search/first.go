package search

import (
	"context"
	"slices"
	"sync"
	"time"

	"cachebro/store"

	"github.com/blevesearch/bleve/v2/index/scorch"
	"github.com/blevesearch/bleve/v2/index/scorch/mergeplan"
)

// wanted is a file that the first index must contain. It holds only the data that prepare needs,
// because the complete versions of 100,000 files, with their writers, took 40 MB.
type wanted struct {
	path      store.Path
	seq       uint64
	time      int64
	size      int64
	changed   int64 // mtime, ns
	blob      store.Hash
	noContent string
}

func (w *wanted) version() store.Version {
	return store.Version{Path: w.path, Seq: w.seq, Time: w.time, Op: store.OpWrite, Blob: w.blob, NoContent: w.noContent, Stat: store.Stat{Size: w.size}}
}

// A first index of more than largeTree files takes half a minute or more, and ranked queries find
// only files that are indexed. So it begins with the workedOn files that were changed last. The
// other files follow in path order, because neighbouring files share words.
const (
	largeTree = 100_000
	workedOn  = 5_000
)

// lastChangedFirst moves the n files that were changed last to the front, and keeps the order of
// the others.
func lastChangedFirst(all []wanted, n int) {
	if n >= len(all) {
		return
	}
	changed := make([]int64, len(all))
	for i := range all {
		changed[i] = all[i].changed
	}
	slices.Sort(changed)
	since := changed[len(all)-n]
	at, _ := slices.BinarySearch(changed, since+1)
	ties := n - (len(all) - at)   // number of files with the change time since that belong to the front
	front := make([]wanted, 0, n) // in reverse order
	to := len(all)
	for i := len(all) - 1; i >= 0; i-- {
		if w := all[i]; w.changed > since || w.changed == since && ties > 0 {
			if w.changed == since {
				ties--
			}
			front = append(front, w)
			continue
		}
		to--
		all[to] = all[i]
	}
	slices.Reverse(front)
	copy(all, front)
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
	var all []wanted
	if err := x.corpus.Live("", func(v store.Version) error {
		if x.searchable(v) {
			all = append(all, wanted{v.Path, v.Seq, v.Time, v.Stat.Size, v.Stat.Mtime, v.Blob, v.NoContent})
		}
		return ctx.Err()
	}); err != nil {
		return err
	}
	if len(all) > largeTree {
		lastChangedFirst(all, workedOn)
	}
	x.made.Store(0)
	x.toMake.Store(int64(len(all)))
	defer x.toMake.Store(0)
	merge := x.holdMerges()
	defer merge()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	analysed := make(chan *batch) // closed by the goroutine that analyses
	var analysing sync.WaitGroup
	analysing.Go(func() {
		defer close(analysed)
		b := x.staleBatch(all)
		hand := func() bool {
			if err := b.analyse(ctx); err != nil {
				cancel(err)
				return false
			}
			select {
			case analysed <- b:
				b = x.newBatch()
				return true
			case <-ctx.Done():
				return false
			}
		}
		for i := range all {
			if w := &all[i]; x.has(w) {
				x.made.Add(1)
				continue
			}
			if b.take(all[i].version()); b.full() && !hand() {
				return
			}
		}
		hand()
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

// has reports whether the index has the wanted version of a file.
func (x *table) has(w *wanted) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	f, ok := x.files[w.path]
	return ok && f.indexed && f.hash == w.blob && f.seq == w.seq
}

// staleBatch returns a batch that removes the files that an earlier attempt has indexed, if they
// are not in all.
func (x *Index) staleBatch(all []wanted) *batch {
	b := x.newBatch()
	x.mu.RLock()
	defer x.mu.RUnlock()
	if len(x.files)+len(x.binary) == 0 {
		return b
	}
	among := make(map[store.Path]bool, len(all))
	for i := range all {
		among[all[i].path] = true
	}
	gone := func(p store.Path) {
		if !among[p] {
			b.take(store.Version{Path: p, Op: store.OpUnlink})
		}
	}
	for p := range x.files {
		gone(p)
	}
	for p := range x.binary {
		gone(p)
	}
	return b
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
