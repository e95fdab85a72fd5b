package search

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"cachebro/store"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/document"
	"golang.org/x/sync/errgroup"
)

// batchFiles and batchBytes are the limits of one batch of the writer. Two batches are in memory at
// a time, and the documents of a batch take about ten times the memory of its text. On a small tree,
// batches of 4 MiB would save a tenth of the merging. On the Go source tree of 127 MB, under the
// daemon's memory limit, they caused 275 garbage collections instead of 178. Each batch becomes a
// segment; with batches of 400 small files, merging the segments took a sixth of the daemon's time.
const (
	batchFiles = 1600
	batchBytes = 2 << 20
)

// batch collects files that are written in one step.
type batch struct {
	x     *Index
	files []store.Version
	bytes int64
	ready []prepared // set by analyse
}

func (x *Index) newBatch() *batch { return &batch{x: x} }

func (b *batch) take(v store.Version) {
	b.files = append(b.files, v)
	b.bytes += v.Stat.Size
}

func (b *batch) full() bool { return len(b.files) >= batchFiles || b.bytes >= b.x.opt.BatchBytes }

// prepared is one file after analysis.
type prepared struct {
	path store.Path
	f    *file // nil if the file is to be removed from the index
	docs []*document.Document
}

// commit analyses the files and writes them. For seq and last, see write.
func (b *batch) commit(ctx context.Context, seq uint64, last bool) error {
	if err := b.analyse(ctx); err != nil {
		return err
	}
	return b.write(seq, last)
}

// analyse makes the documents. It uses all cores, but only one core while somebody waits for
// answers.
func (b *batch) analyse(ctx context.Context) error {
	x := b.x
	b.ready = make([]prepared, len(b.files))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(x.workers())
	if x.opt.Asked != nil && x.opt.Asked() {
		g.SetLimit(1)
	}
	for i := range b.files {
		g.Go(func() error {
			if gctx.Err() != nil {
				return gctx.Err()
			}
			words := x.lexicons.Get().(*lexicon)
			defer x.lexicons.Put(words)
			p, err := x.prepare(b.files[i], words)
			b.ready[i] = p
			return err
		})
	}
	return g.Wait()
}

// write writes the analysed files to the index. With the last batch it also writes the checkpoint
// seq.
func (b *batch) write(seq uint64, last bool) error {
	x := b.x
	if x.opt.Room != nil && !x.opt.Room() {
		return errNoRoom
	}
	batch := x.idx.NewBatch()
	for _, p := range b.ready {
		if err := x.enter(batch, p); err != nil {
			return err
		}
	}
	if last {
		batch.SetInternal(seqKey, binary.BigEndian.AppendUint64(nil, seq))
	}
	persisted := make(chan struct{})
	batch.SetPersistedCallback(func(error) { close(persisted) })
	if err := x.idx.Batch(batch); err != nil {
		return fmt.Errorf("write search index: %w", err)
	}
	x.persisted = persisted
	now := time.Now()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.analysed.Add(int64(len(b.ready)))
	for _, p := range b.ready {
		x.setLocked(p.path, p.f)
		delete(x.held, p.path)
		delete(x.removed, p.path)
		if x.ready {
			x.taken[p.path] = now
		}
	}
	if last {
		x.seq, x.ready = max(seq, x.seq), true
		x.problem.Store(nil)
	}
	return nil
}

// enter adds one file to a bleve batch. The new chunks replace the file's earlier chunks.
func (x *Index) enter(batch *bleve.Batch, p prepared) error {
	x.mu.RLock()
	old, known := x.files[p.path]
	_, binary := x.binary[p.path]
	if !known {
		old, known = x.removed[p.path]
	}
	x.mu.RUnlock()
	kept := map[string]bool{}
	for _, d := range p.docs {
		kept[d.ID()] = true
		if err := batch.IndexAdvanced(d); err != nil {
			return err
		}
	}
	if known || binary {
		if id := fileID(p.path); !kept[id] {
			batch.Delete(id)
		}
		for i := range old.chunks.len() {
			if id := chunkID(p.path, old.chunks.at(i)); !kept[id] {
				batch.Delete(id)
			}
		}
	}
	return nil
}
