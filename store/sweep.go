package store

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	badger "github.com/dgraph-io/badger/v4"
)

// chunk is how many keys one step of background work touches while it holds
// writeMu, so that Apply waits a few milliseconds at most.
const chunk = 200

// Report says what a collection did.
type Report struct {
	Versions int   // whose content was dropped
	Blobs    int   // contents dropped
	Bytes    int64 // of those, as they were stored
	Rebased  int   // contents stored anew because what they built on went
	Records  int   // versions dropped from the log altogether
	Packed   int   // contents that were put into frames
	Before   int64 // bytes on disk
	After    int64

	loosened int64 // bytes that packed contents took before
}

func (r *Report) add(o Report) {
	r.Versions += o.Versions
	r.Blobs += o.Blobs
	r.Bytes += o.Bytes
	r.Rebased += o.Rebased
	r.Records += o.Records
	r.Packed += o.Packed
	r.loosened += o.loosened
}

// Pinned tells the store which contents others need: the diff bases of live
// readers. Retention takes them last. fn must be quick; it may be called from
// any goroutine.
func (s *Store) Pinned(fn func(Hash) bool) {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	s.pinned = fn
}

// short is the part of a hash that the sets of a sweep keep; a collision makes
// a content stay, never go.
func short(h Hash) uint64 { return binary.BigEndian.Uint64(h[:8]) }

// hashSet is a sorted set: 8 bytes an entry, where a map takes 40.
type hashSet []uint64

func (hs hashSet) has(h Hash) bool { _, ok := slices.BinarySearch(hs, short(h)); return ok }

// referenced collects the contents that the log and open plans refer to.
func (s *Store) referenced(ctx context.Context) (hashSet, error) {
	var hs hashSet
	err := s.scan(0, false, func(v Version) bool {
		if v.Blob != (Hash{}) {
			hs = append(hs, short(v.Blob))
		}
		return len(hs)%1024 != 0 || ctx.Err() == nil
	}, nil)
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return nil, err
	}
	open, err := s.OpenPlans()
	if err != nil {
		return nil, err
	}
	for _, p := range open {
		for _, st := range p.Steps {
			hs = append(hs, short(st.Blob))
		}
	}
	slices.Sort(hs)
	return slices.Compact(hs), nil
}

// watch makes Apply note the contents that it refers to from now on. What
// appears between a sweep's look at the log and its deletions must stay.
func (s *Store) watch() (stop func()) {
	s.writeMu.Lock()
	s.fresh = map[Hash]bool{}
	s.writeMu.Unlock()
	return func() {
		s.writeMu.Lock()
		s.fresh = nil
		s.writeMu.Unlock()
	}
}

// sweep deletes the contents that nothing refers to. What builds on them is
// stored anew first, and frames of which too little is still needed are
// rewritten. Each chunk is a step of its own: a kill leaves contents
// that the next sweep takes. tidyMu is held.
func (s *Store) sweep(ctx context.Context, which waste) (Report, error) {
	var r Report
	defer s.watch()()
	live, err := s.referenced(ctx)
	if err != nil {
		return r, fmt.Errorf("sweep: %w", err)
	}
	var dead, orphans []Hash
	err = s.eachBlob(func(h Hash, hd header) error {
		switch {
		case !live.has(h):
			dead = append(dead, h)
		case hd.based() && !live.has(hd.base):
			orphans = append(orphans, h)
		}
		return ctx.Err()
	})
	if err != nil {
		return r, fmt.Errorf("sweep: %w", err)
	}
	if len(dead) == 0 {
		return r, nil
	}
	for part := range slices.Chunk(orphans, chunk/8) {
		if err := cmp.Or(ctx.Err(), s.rebasePlain(part, &r)); err != nil {
			return r, fmt.Errorf("sweep: %w", err)
		}
	}
	for part := range slices.Chunk(dead, chunk) {
		if err := cmp.Or(ctx.Err(), s.dropBlobs(part, &r)); err != nil {
			return r, fmt.Errorf("sweep: %w", err)
		}
	}
	if err := s.refit(ctx, which, &r); err != nil {
		return r, fmt.Errorf("sweep: %w", err)
	}
	return r, nil
}

// eachBlob passes all headers, in the order of hashes.
func (s *Store) eachBlob(fn func(Hash, header) error) error {
	return s.view(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{PrefetchValues: false, Prefix: []byte{kBlob}})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			key := it.Item().Key()
			if len(key) != 33 {
				continue
			}
			var hd header
			err := it.Item().Value(func(v []byte) (err error) { hd, _, err = parseHeader(v); return })
			if err != nil {
				hd = header{} // fsck's business
			}
			if err := fn(Hash(key[1:]), hd); err != nil {
				return err
			}
		}
		return nil
	})
}

// rebasePlain stores contents without a base.
func (s *Store) rebasePlain(hs []Hash, r *Report) error {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	if s.db.Closed() {
		return ErrClosed
	}
	b := s.newBatch()
	defer b.discard()
	for _, h := range hs {
		hd, err := b.header(h)
		if err != nil || !hd.based() {
			continue
		}
		content, err := b.content(h)
		if err != nil {
			s.opt.Log.Error("cannot store anew", "content", fmt.Sprintf("%x", h[:6]), "err", err)
			continue
		}
		ph, payload, err := s.codecs.plain(content)
		if err != nil {
			return err
		}
		ph.pieces = hd.pieces
		b.pend(h, &pending{header: ph, payload: payload, content: content, was: &hd})
		r.Rebased++
	}
	return b.commit()
}

// dropBlobs deletes contents, unless something has come to need them.
func (s *Store) dropBlobs(hs []Hash, r *Report) error {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	if s.db.Closed() {
		return ErrClosed
	}
	b := s.newBatch()
	defer b.discard()
	needed := map[Hash]bool{}
	for h := range s.fresh {
		// Its bases, too, all the way down.
		for at, n := h, 0; n < 2*maxLinks && !needed[at]; n++ {
			needed[at] = true
			hd, err := b.header(at)
			if err != nil || !hd.based() {
				break
			}
			at = hd.base
		}
	}
	for _, h := range hs {
		if needed[h] {
			continue
		}
		hd, err := b.header(h)
		if errors.Is(err, ErrPruned) {
			continue
		}
		if err := b.dropBlob(h, hd); err != nil {
			return err
		}
		r.Blobs++
		r.Bytes += hd.stored
	}
	return b.commit()
}

func (b *batch) dropBlob(h Hash, hd header) error {
	for n := range hd.pieces {
		if err := b.w.Del(keyPiece(h, n)); err != nil {
			return err
		}
	}
	if err := b.w.Del(keyBlob(h)); err != nil {
		return err
	}
	b.s.contents.drop(h)
	b.uncount(hd)
	return nil
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
