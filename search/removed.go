package search

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"cachebro/store"

	index "github.com/blevesearch/bleve_index_api"
)

// A deleted file's documents stay for a while, in case an undo or a checkout restores the file.
// When documents were removed at once, making them again was half of the daemon's work. Queries do
// not show them, because the file table decides which files exist.

const removedFor = time.Hour

// removeLocked removes an indexed file from the table but keeps its documents. The caller holds
// x.mu.
func (x *table) removeLocked(p store.Path, f file, at int64) {
	x.setLocked(p, nil)
	f.time = at
	x.removed[p] = f
}

// returnsLocked reports whether a version restores a deleted file with the same content, and if so
// enters the file into the table again. The caller holds x.mu.
func (x *table) returnsLocked(v store.Version) bool {
	f, ok := x.removed[v.Path]
	if !ok || f.hash != v.Blob {
		return false
	}
	delete(x.removed, v.Path)
	f.seq, f.time, f.size = v.Seq, v.Time, v.Stat.Size
	x.setLocked(v.Path, &f)
	return true
}

// forgetRemoved drops the documents of files that were deleted before a time, in ns. The caller
// holds x.write.
func (x *Index) forgetRemoved(ctx context.Context, before int64) error {
	b := x.newBatch()
	x.mu.RLock()
	for p, f := range x.removed {
		if f.time < before {
			b.take(store.Version{Path: p, Op: store.OpUnlink})
		}
	}
	x.mu.RUnlock()
	if len(b.files) == 0 {
		return nil
	}
	return b.commit(ctx, 0, false)
}

// findRemoved finds, when an index is opened, the files that have documents but are not in the
// table. No other goroutine knows the index yet.
func (x *Index) findRemoved(r index.IndexReader) error {
	ids, err := r.FieldDict("_id")
	if err != nil {
		return err
	}
	defer ids.Close()
	for {
		e, err := ids.Next()
		if err != nil {
			return err
		}
		if e == nil {
			return nil
		}
		name, ok := strings.CutSuffix(e.Term, "\x00") // a term that ends in NUL belongs to the file's own document
		p := store.Path(name)
		_, known := x.files[p]
		_, binary := x.binary[p]
		if !ok || known || binary {
			continue
		}
		raw, err := recordOf(r, p)
		if err != nil {
			return err
		}
		if raw == nil { // the document was already dropped, but the segments have not been merged since
			continue
		}
		f, err := parseRecord(p, raw)
		if err != nil {
			return err
		}
		v, _, err := x.corpus.Current(p)
		if err != nil {
			return err
		}
		f.time = v.Time
		x.removed[p] = f
	}
}

// parseRecord returns the part of a file's table entry that its document stores.
func parseRecord(p store.Path, raw []byte) (f file, err error) {
	var r fileRecord
	if err := json.Unmarshal(raw, &r); err != nil {
		return f, fmt.Errorf("record of %s: %w", p, err)
	}
	f = file{indexed: r.Indexed, binary: r.Binary, gen: r.Gen, kind: KindOf(string(p))}
	for _, c := range r.Chunks {
		f.chunks.add(span{c[0], c[1]})
	}
	copy(f.hash[:], r.Hash)
	return f, nil
}
