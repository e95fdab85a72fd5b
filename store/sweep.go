package store

import (
	"cmp"
	"context"
	"errors"

	"cachebro/store/content"
)

// chunk is how many keys one step of background work touches while it holds
// writeMu, so that Apply waits a few milliseconds at most.
const chunk = 200

// Report says what a collection did.
type Report struct {
	content.Report
	Versions int   // whose content was dropped
	Records  int   // versions dropped from the log altogether
	Before   int64 // bytes on disk
	After    int64
}

func (r *Report) add(o content.Report) {
	r.Blobs += o.Blobs
	r.Bytes += o.Bytes
	r.Rebased += o.Rebased
	r.Packed += o.Packed
	r.Loosened += o.Loosened
}

// Pinned tells the store which contents others need: the diff bases of live
// readers. Retention takes them last. fn must be quick; it may be called from
// any goroutine.
func (s *Store) Pinned(fn func(Hash) bool) {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	s.pinned = fn
}

// sweep deletes the contents that the log and open plans do not refer to. tidyMu is
// held.
func (s *Store) sweep(ctx context.Context, which content.Waste) (content.Report, error) {
	return s.contents.Sweep(ctx, which, func(add func(Hash)) error {
		n := 0
		err := s.scan(0, false, func(v Version) bool {
			add(v.Blob)
			n++
			return n%1024 != 0 || ctx.Err() == nil
		}, nil)
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		open, err := s.OpenPlans()
		for _, p := range open {
			for _, st := range p.Steps {
				add(st.Blob)
			}
		}
		return err
	})
}

// dropContents takes the content off versions; why goes into their NoContent.
func (s *Store) dropContents(seqs []uint64, why string) error {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	if s.db.Closed() {
		return ErrClosed
	}
	b := s.newBatch()
	defer b.discard()
	for _, seq := range seqs {
		v, err := s.versionIn(b.w.Txn, seq)
		if errors.Is(err, ErrNotFound) || err == nil && v.Blob == (Hash{}) {
			continue
		}
		if err != nil {
			return err
		}
		v.Blob, v.NoContent = Hash{}, why
		if err := b.rewrite(v); err != nil {
			return err
		}
	}
	s.nodes.clear() // it may build on what goes now
	return b.commit()
}

// rewrite replaces a version's record, and that of its path if it is the newest.
func (b *batch) rewrite(v Version) error {
	cur, _, err := b.live(v.Path)
	if err != nil {
		return err
	}
	enc := encode(&v)
	if err := b.w.Set(keyVersion(v.Seq), enc); err != nil {
		return err
	}
	if cur.Seq != v.Seq {
		return nil
	}
	b.cur[v.Path], b.dirty[v.Path] = v, true
	return b.w.Set(keyCurrent(v.Path), encodeCurrent(&v, enc))
}
