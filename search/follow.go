package search

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"cachebro/store"
	"cachebro/store/leaf/loop"

	index "github.com/blevesearch/bleve_index_api"
)

// seqKey is the key of the checkpoint in bleve's internal store.
var seqKey = []byte("seq")

// fileID returns the id of a file's own document.
func fileID(p store.Path) string { return string(p) + "\x00" }

// fileRecord is stored in the file's own document, so that the hash and the documents cannot
// disagree. It is not in bleve's internal store, because every batch would rewrite that store
// completely.
type fileRecord struct {
	Hash    []byte     `json:"h"`
	Chunks  [][2]int32 `json:"c,omitempty"` // the first and last line of each
	Gen     bool       `json:"g,omitempty"`
	Indexed bool       `json:"x,omitempty"`
	Binary  bool       `json:"b,omitempty"`
}

// follower brings an Index up to date with the version log, until Close.
type follower struct {
	x         *Index
	suspended atomic.Int32       // callers of Suspend that have not called release yet
	stop      context.CancelFunc // nil if not started
	done      chan struct{}      // closed when the follower has ended
	poke      chan struct{}      // capacity 1; never closed
	grown     chan struct{}      // capacity 1: files may lack vectors; never closed
}

// end stops the follower.
func (f *follower) end() {
	if f.stop != nil {
		f.stop()
		<-f.done
	}
}

// Start begins to follow the version log in the background, until Close.
func (f *follower) Start(ctx context.Context) {
	ctx, f.stop = context.WithCancel(ctx)
	var embedding sync.WaitGroup
	if f.x.vectors != nil {
		embedding.Go(func() { f.x.embed(ctx) })
	}
	go func() {
		defer close(f.done)
		defer embedding.Wait()
		pause := retryFirst
		for {
			began := time.Now()
			if f.suspended.Load() == 0 {
				err := f.x.catchUp(ctx, settleTime, func() bool { return f.suspended.Load() > 0 })
				if ctx.Err() != nil {
					return
				}
				if errors.Is(err, errNoRoom) {
					f.x.opt.Logger.Warn("search index", "err", err)
					loop.Pause(ctx, pause)
				} else if err != nil {
					f.x.opt.Logger.Error("search index", "err", err)
					f.rebuildLater(ctx, err, pause)
				}
				if err != nil {
					pause = min(2*pause, retryLast)
					continue
				}
				pause = retryFirst
			}
			loop.Wake(f.grown)
			due := f.due()
			step := time.Since(began)
			if due != nil { // files are being saved repeatedly; a step for each save would cost too much
				step = max(step, settleTime/8/pauseFactor)
			}
			if !loop.Pause(ctx, min(pauseFactor*step, maxPause)) {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-f.poke:
			case <-due:
			}
		}
	}()
}

// After each step, the follower pauses pauseFactor times as long as the step took, but at most
// maxPause. Otherwise each repeated save, or each of thousands of files, would cost a segment of
// the index while versions are being stored. For 4,000 versions in batches of 8, storing took 1.3 s
// of processor time, and indexing each batch at once took 8.7 s. Exact queries do not wait for the
// follower, because they read newer versions themselves.
const (
	pauseFactor = 10
	maxPause    = 2 * time.Second
)

// Suspend stops the follower from indexing until release is called. It is for a caller that writes
// thousands of files and needs the processors. Queries stay correct, but they must read the files
// that change in the meantime. Suspensions nest.
func (f *follower) Suspend() (release func()) {
	f.suspended.Add(1)
	return sync.OnceFunc(func() {
		f.suspended.Add(-1)
		f.Poke()
	})
}

// Suspended reports whether the follower is suspended. Other background work should then wait too.
func (f *follower) Suspended() bool { return f.suspended.Load() > 0 }

// rebuildLater waits for the duration pause, then rebuilds an index that cannot be written.
func (f *follower) rebuildLater(ctx context.Context, why error, pause time.Duration) {
	if !loop.Pause(ctx, pause) {
		return
	}
	if err := f.x.reset("it is being rebuilt: " + why.Error()); err != nil {
		f.x.opt.Logger.Error("rebuild search index", "err", err)
	}
}

// Poke tells the follower that there are new versions. It never blocks.
func (f *follower) Poke() { loop.Wake(f.poke) }

// Reset empties the index. The follower fills it again.
func (x *Index) Reset() error { return x.reset("it is being rebuilt on request") }

func (x *Index) reset(why string) error {
	x.write.Lock()
	defer x.write.Unlock()
	_ = x.drop()
	x.begin(why)
	return x.recreate()
}

// load restores the file table and the dictionary from an opened index.
func (x *Index) load() error {
	x.mu.Lock() // only because empty needs it; no other goroutine knows the index yet
	x.empty()
	x.mu.Unlock()
	raw, err := x.idx.GetInternal(seqKey)
	if err != nil {
		return err
	}
	complete := len(raw) == 8 // otherwise the first index was interrupted, and will be continued
	if complete {
		x.seq = binary.BigEndian.Uint64(raw)
	} else {
		x.problem.Store(&beingMade)
	}
	if newest := x.corpus.Seq(); x.seq > newest {
		return fmt.Errorf("it was made at version %d, but the log ends at %d", x.seq, newest)
	}
	reader, err := x.reader()
	if err != nil {
		return err
	}
	defer reader.Close()
	err = x.corpus.Live("", func(v store.Version) error {
		raw, err := recordOf(reader, v.Path)
		if err != nil || raw == nil {
			return err
		}
		f, err := parseRecord(v.Path, raw)
		if err != nil {
			return err
		}
		f.size, f.seq, f.time = v.Stat.Size, v.Seq, v.Time
		if f.hash != v.Blob && v.Seq <= x.seq {
			f.indexed, f.binary = false, false // the record belongs to an older version or to another log
			x.held[v.Path] = held{}
		}
		x.setLocked(v.Path, &f) // no other goroutine knows the index yet
		return nil
	})
	if err != nil {
		return err
	}
	if err := x.findRemoved(reader); err != nil {
		return err
	}
	dict, err := x.idx.FieldDict(fieldWord)
	if err != nil {
		return err
	}
	defer dict.Close()
	for {
		e, err := dict.Next()
		if err != nil {
			return err
		}
		if e == nil {
			break
		}
		x.terms.add(e.Term)
	}
	x.ready = complete
	return nil
}

// recordOf reads the stored record of a path, or nil if the path is not in the index.
func recordOf(r index.IndexReader, p store.Path) (raw []byte, err error) {
	d, err := r.Document(fileID(p))
	if err != nil || d == nil {
		return nil, err
	}
	d.VisitFields(func(f index.Field) {
		if f.Name() == fieldRecord {
			raw = bytes.Clone(f.Value())
		}
	})
	return raw, nil
}

// CatchUp brings the index up to the newest version. The first time, it indexes the existing files
// instead of the whole history.
func (x *Index) CatchUp(ctx context.Context) error {
	return x.catchUp(ctx, 0, func() bool { return false })
}

const (
	window    = batchFiles // the number of versions that are read at once
	stepPaths = 4 * window // one step handles about as many paths
)

// catchUp does the work of CatchUp in steps, and ends after a step if stop returns true. It skips a
// version if there is a newer version of the same path. A file that is saved repeatedly is indexed
// once it has not been saved for the duration settle.
func (x *Index) catchUp(ctx context.Context, settle time.Duration, stop func() bool) error {
	x.write.Lock()
	defer x.write.Unlock()
	return x.catchUpLocked(ctx, settle, stop)
}

// catchUpLocked does the work of catchUp. The caller holds x.write.
func (x *Index) catchUpLocked(ctx context.Context, settle time.Duration, stop func() bool) error {
	if x.idx == nil {
		return errNoIndex
	}
	x.mu.RLock()
	ready, seq := x.ready, x.seq
	x.mu.RUnlock()
	if !ready {
		return x.first(ctx)
	}
	if err := x.forgetRemoved(ctx, time.Now().Add(-removedFor).UnixNano()); err != nil {
		return err
	}
	later := map[store.Path]uint64{} // newest versions of paths that were left for a later step
	for ctx.Err() == nil {
		ripe, err := x.ripe(settle)
		if err != nil {
			return err
		}
		newest, at := ripe, map[store.Path]int{} // the newest version read of each path, and its index
		for i, v := range ripe {
			at[v.Path] = i
		}
		// A directory that is renamed repeatedly makes many versions of few paths. So one step
		// reads the log until it has enough paths.
		read := 0
		for more := true; more && len(newest) < stepPaths; {
			vs, err := x.corpus.Since(seq, window)
			if err != nil {
				return err
			}
			for _, v := range vs {
				seq = v.Seq
				i, known := at[v.Path]
				if !known {
					at[v.Path] = len(newest)
					newest = append(newest, v)
				} else if v.Seq > newest[i].Seq {
					newest[i] = v
				}
			}
			read += len(vs)
			more = len(vs) == window && ctx.Err() == nil && !stop()
		}
		if read+len(ripe) == 0 {
			return nil
		}
		b := x.newBatch()
		for _, v := range newest {
			if later[v.Path] > seq || x.passes(v, settle) { // before asking the store, which costs more
				continue
			}
			if x.corpus.Seq() > seq { // the path may have a newer version, which comes later
				cur, found, err := x.corpus.Current(v.Path)
				if err != nil {
					return err
				}
				if found && cur.Seq > v.Seq && cur.Seq > seq {
					later[v.Path] = cur.Seq
					continue
				}
			}
			if b.take(v); b.full() { // the checkpoint moves only with the last batch
				if err := b.commit(ctx, 0, false); err != nil || stop() {
					return err // the next step passes over the files of this batch
				}
				b = x.newBatch()
			}
		}
		if len(b.files) == 0 {
			x.mu.Lock()
			x.seq = seq // the next write stores it on disk
			x.mu.Unlock()
		} else if err := b.commit(ctx, seq, true); err != nil {
			return err
		}
		if stop() {
			return nil
		}
	}
	return ctx.Err()
}
