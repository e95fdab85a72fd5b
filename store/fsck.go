package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"cachebro/store/content"

	badger "github.com/dgraph-io/badger/v4"
)

// Check is the result of Fsck.
type Check struct {
	Versions int
	Blobs    int
	Bytes    int64    // of contents that were read and verified
	Problems []string // what was wrong, in words; 1,000 at most
	Repaired int
	Lost     []uint64 // versions whose content is gone, marked now
	// Unread: the check itself could not read on; the store needs to be
	// restored or begun anew.
	Unread error
}

// OK reports whether nothing was wrong.
func (c *Check) OK() bool { return len(c.Problems) == 0 && c.Unread == nil }

func (c *Check) problem(format string, a ...any) {
	if len(c.Problems) < 1000 {
		c.Problems = append(c.Problems, fmt.Sprintf(format, a...))
	}
}

// Fsck reads everything: each version and its index keys, each content and its hash,
// the counters. With repair it makes index keys anew from the versions, drops
// contents that cannot be read, notes that in their versions, and sets the counters
// right. step, if not nil, hears how many contents are done.
func (s *Store) Fsck(ctx context.Context, repair bool, step func(done, all int)) (*Check, error) {
	s.tidyMu.Lock()
	defer s.tidyMu.Unlock()
	c := &Check{}
	if repair {
		s.contents.FetchPacks(c.problem)
	}
	vd, err := s.contents.Verify(ctx, c.problem, step)
	if c.Blobs, c.Bytes, c.Unread = vd.Blobs, vd.Bytes, vd.Unread; err != nil {
		return c, err
	}
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	if s.db.Closed() {
		return c, ErrClosed
	}
	b := s.newBatch()
	defer b.discard()
	if err := b.checkLog(ctx, c, vd.Bad); err != nil {
		return c, err
	}
	if err := b.checkStrays(ctx, c); err != nil {
		return c, err
	}
	if err := b.checkCounters(c); err != nil {
		return c, err
	}
	if !repair || c.OK() {
		return c, nil
	}
	for h := range vd.Bad {
		if _, err := b.contents.Drop(h); err != nil && !errors.Is(err, ErrPruned) {
			return c, err
		}
	}
	if err := b.recount(); err != nil {
		return c, err
	}
	s.current.Clear()
	s.contents.Forget()
	s.nodes.clear()
	c.Repaired = len(c.Problems)
	return c, b.commit()
}

// checkLog compares each version with its keys, and queues repairs.
func (b *batch) checkLog(ctx context.Context, c *Check, bad map[Hash]bool) error {
	newest := map[Path]uint64{}
	blocks := map[uint64]times{}
	var fix []Version
	err := b.s.db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{PrefetchValues: true, PrefetchSize: 64, Prefix: []byte{kVersion}})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			if err := ctx.Err(); err != nil {
				return err
			}
			var v Version
			key := it.Item().KeyCopy(nil)
			err := it.Item().Value(func(val []byte) (err error) { v, err = decodeVersion(key, val); return })
			if err != nil {
				c.problem("version %x: %v", key[1:], err)
				if err := b.w.Del(key); err != nil {
					return err
				}
				continue
			}
			c.Versions++
			newest[v.Path] = v.Seq
			blk := v.Seq / timeBlock
			t, ok := blocks[blk]
			blocks[blk] = t.with(&v, ok)
			if v.Blob != (Hash{}) {
				kept, err := content.Kept(txn, v.Blob)
				if missing := !kept && err == nil; missing || bad[v.Blob] {
					if missing {
						c.problem("version %d (%q): its content is missing", v.Seq, string(v.Path))
					}
					c.Lost = append(c.Lost, v.Seq)
					v.Blob, v.NoContent = Hash{}, "damaged"
					fix = append(fix, v)
				}
			}
			for _, ix := range append(indexes(&v), keyPath(v.Path, v.Seq)) {
				if _, err := txn.Get(ix); errors.Is(err, badger.ErrKeyNotFound) {
					c.problem("version %d: an index key is missing", v.Seq)
					var val []byte
					if ix[0] == kPath {
						val = []byte{byte(v.Op), byte(v.Class)}
					}
					if err := b.w.Set(ix, val); err != nil {
						return err
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, v := range fix {
		enc := encode(&v)
		if err := b.w.Set(keyVersion(v.Seq), enc); err != nil {
			return err
		}
	}
	for blk, t := range blocks {
		if have, ok := b.readTimes(blk); !ok || have.Min > t.Min || have.Max < t.Max || have.Who != 0 && have.Who != t.Who {
			c.problem("time block %d is wrong", blk)
			if err := b.w.Set(keyTimes(blk*timeBlock), t.bytes()); err != nil {
				return err
			}
		}
	}
	return b.checkCurrent(c, newest)
}

// checkCurrent compares the c keys with the newest versions.
func (b *batch) checkCurrent(c *Check, newest map[Path]uint64) error {
	for p, seq := range newest {
		item, err := b.w.Txn.Get(keyVersion(seq))
		if err != nil {
			return damaged(err)
		}
		var v Version
		if err := item.Value(func(val []byte) (err error) { v, err = decodeVersion(keyVersion(seq), val); return }); err != nil {
			return err
		}
		want := encodeCurrent(&v, encode(&v))
		item, err = b.w.Txn.Get(keyCurrent(p))
		if err == nil {
			same := false
			if err := item.Value(func(val []byte) error { same = bytes.Equal(val, want); return nil }); err == nil && same {
				continue
			}
		}
		if !slices.Contains(c.Lost, seq) {
			c.problem("the newest version of %q is not noted", string(p))
		}
		if err := b.w.Set(keyCurrent(p), want); err != nil {
			return err
		}
	}
	return nil
}

// checkStrays finds keys that belong to no version or content.
func (b *batch) checkStrays(ctx context.Context, c *Check) error {
	var stray [][]byte
	err := b.s.db.View(func(txn *badger.Txn) error {
		has := func(k []byte) bool { _, err := txn.Get(k); return err == nil }
		for _, prefix := range []byte{kPath, kIndex, kCurrent} {
			it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{prefix}})
			for it.Rewind(); it.Valid() && ctx.Err() == nil; it.Next() {
				key := it.Item().KeyCopy(nil)
				ok := len(key) > 9
				switch {
				case prefix == kCurrent:
					var v Version
					err := it.Item().Value(func(val []byte) (err error) { v, err = decodeCurrent(val); return })
					ok = err == nil && has(keyVersion(v.Seq))
				case !ok:
				default:
					ok = has(append([]byte{kVersion}, key[len(key)-8:]...))
				}
				if !ok {
					c.problem("a %q key belongs to nothing", string(prefix))
					stray = append(stray, key)
				}
			}
			it.Close()
		}
		pieces, err := content.StrayPieces(ctx, txn)
		for _, key := range pieces {
			c.problem("a %q key belongs to nothing", string(key[:1]))
		}
		stray = append(stray, pieces...)
		return err
	})
	if err != nil {
		return err
	}
	for _, k := range stray {
		if err := b.w.Del(k); err != nil {
			return err
		}
	}
	return nil
}

// checkCounters compares the state with what is there.
func (b *batch) checkCounters(c *Check) error {
	have, err := b.counted()
	if err != nil {
		return err
	}
	was := b.next
	if was.Versions != have.Versions || was.Files != have.Files || was.Blobs != have.Blobs || was.BlobBytes != have.BlobBytes {
		c.problem("the counters say %d versions, %d files, %d contents of %d bytes; there are %d, %d, %d of %d",
			was.Versions, was.Files, was.Blobs, was.BlobBytes, have.Versions, have.Files, have.Blobs, have.BlobBytes)
	}
	return nil
}

// recount sets the counters of the state from the batch's view of the store.
func (b *batch) recount() error {
	n, err := b.counted()
	if err == nil {
		b.next, b.contents.Counts = n, n.counts()
	}
	return err
}

// counted is the state with its counters as the batch sees the store.
func (b *batch) counted() (State, error) {
	n := b.next
	n.Versions, n.Files = 0, 0
	it := b.w.Txn.NewIterator(badger.IteratorOptions{})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		item := it.Item()
		var err error
		switch key := item.Key(); key[0] {
		case kVersion:
			n.Versions++
			n.Seq = max(n.Seq, binary.BigEndian.Uint64(key[1:]))
		case kCurrent:
			err = item.Value(func(val []byte) error {
				v, err := decodeCurrent(val)
				if err == nil && !v.Deleted() && !isDir(v.Stat) {
					n.Files++
				}
				return err
			})
		}
		if err != nil {
			return n, damaged(err)
		}
	}
	it.Close()
	blobs, err := content.Count(b.w.Txn)
	n.setCounts(blobs)
	return n, err
}
