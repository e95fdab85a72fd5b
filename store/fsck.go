package store

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"slices"

	"cachebro/store/content"

	badger "github.com/dgraph-io/badger/v4"
)

// Check is the result of Fsck.
type Check struct {
	Versions int
	Blobs    int
	Bytes    int64    // bytes of contents that were read and verified
	Problems []string // descriptions of what was wrong; 1,000 at most
	Repaired int
	Lost     []uint64 // versions whose content is gone; a repair marks them as damaged
	// Unread is the error that stopped the check. If it is set, the store has to be restored from a
	// copy or created anew.
	Unread error
}

// OK reports whether nothing was wrong.
func (c *Check) OK() bool { return len(c.Problems) == 0 && c.Unread == nil }

func (c *Check) problem(format string, a ...any) {
	if len(c.Problems) < 1000 {
		c.Problems = append(c.Problems, fmt.Sprintf(format, a...))
	}
}

// Fsck reads and checks everything: each version and its index keys, each content and its hash, and
// the counters. If repair is set, Fsck also
//   - rebuilds index keys from the versions,
//   - drops contents that cannot be read, and records the loss in their versions,
//   - corrects the counters.
//
// step, if not nil, is called with the number of contents checked so far and the number of all
// contents.
func (s *Store) Fsck(ctx context.Context, repair bool, step func(done, all int)) (*Check, error) {
	s.tidyMu.Lock()
	defer s.tidyMu.Unlock()
	c := &Check{}
	if repair {
		s.contents.FetchPacks(c.problem)
	}
	vd, err := s.contents.Verify(ctx, c.problem, step)
	c.Blobs, c.Bytes, c.Unread = vd.Blobs, vd.Bytes, vd.Unread
	if err != nil {
		return c, err
	}
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	if s.db.Closed() {
		return c, ErrClosed
	}
	b := s.newBatch()
	defer b.discard()
	l := &look{seed: maphash.MakeSeed(), newest: map[Path]newest{}, lost: map[uint64]bool{}}
	if err := b.checkLog(ctx, c, l, &vd); err != nil {
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
	if err := b.recount(c, l); err != nil {
		return c, err
	}
	s.current.Clear()
	s.contents.Forget()
	s.nodes.clear()
	c.Repaired = len(c.Problems)
	if err := b.commit(); err != nil {
		return c, err
	}
	s.tips = newTips()
	return c, s.loadGroups()
}

// look collects in one walk through the log what the walks through the indexes need. Looking up
// each version and each of its keys takes eight times as long.
type look struct {
	seed   maphash.Seed
	want   []wanted // index keys that must exist, sorted by sum
	have   []bool   // have[i]: the key want[i] exists
	newest map[Path]newest
	lost   map[uint64]bool // see Check.Lost
	top    uint64          // the highest number
	files  uint64          // see State.Files; complete once the c keys are checked
}

// wanted is the hash of an index key that version seq must have.
type wanted struct{ sum, seq uint64 }

// newest is the number of a path's newest version and the hash of its record.
type newest struct{ seq, sum uint64 }

// found marks an index key as present. It returns false if no version has this key.
func (l *look) found(key []byte) bool {
	sum := maphash.Bytes(l.seed, key)
	i, ok := slices.BinarySearchFunc(l.want, sum, func(w wanted, sum uint64) int { return cmp.Compare(w.sum, sum) })
	if ok {
		l.have[i] = true
	}
	return ok
}

// count adds the newest version of a path to the file counter.
func (l *look) count(v *Version) {
	if !v.Deleted() && !isDir(v.Stat) {
		l.files++
	}
}

// keysOf returns the index keys of a version.
func keysOf(v *Version) [][]byte { return append(indexes(v), keyPath(v.Path, v.Seq)) }

// checkLog reads each version, compares the log with its indexes, and makes repairs in the batch.
func (b *batch) checkLog(ctx context.Context, c *Check, l *look, vd *content.Verified) error {
	err := b.s.db.View(func(txn *badger.Txn) error {
		if err := b.checkVersions(ctx, txn, c, l, vd); err != nil {
			return err
		}
		if err := b.checkCurrent(ctx, txn, c, l); err != nil {
			return err
		}
		if err := b.checkIndexes(ctx, txn, c, l); err != nil {
			return err
		}
		pieces, err := content.StrayPieces(ctx, txn)
		for _, key := range pieces {
			if err := b.stray(c, key); err != nil {
				return err
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	return b.checkCounters(c, l)
}

// checkVersions compares the log with the contents and the time blocks.
func (b *batch) checkVersions(ctx context.Context, txn *badger.Txn, c *Check, l *look, vd *content.Verified) error {
	blocks := map[uint64]times{}
	groups, err := b.checkGroups(txn, c)
	if err != nil {
		return err
	}
	grouped := func(before uint64) error {
		for ; len(groups) > 0 && groups[0].first < before; groups = groups[1:] {
			g, common := groups[0], groups[0].common()
			for _, ix := range indexes(&common) {
				l.want = append(l.want, wanted{maphash.Bytes(l.seed, ix), g.first})
			}
			err := g.each(func(v Version) error {
				return b.checkVersion(txn, c, l, vd, blocks, v, maphash.Bytes(l.seed, encode(&v)))
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{kVersion}})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		var v Version
		var sum uint64
		key := it.Item().KeyCopy(nil)
		err := it.Item().Value(func(val []byte) (err error) {
			sum = maphash.Bytes(l.seed, val)
			v, err = decodeVersion(key, val)
			return err
		})
		if err != nil {
			c.problem("version %x: %v", key[1:], err)
			if err := b.w.Del(key); err != nil {
				return err
			}
			continue
		}
		if err := grouped(v.Seq); err != nil {
			return err
		}
		for _, ix := range keysOf(&v) {
			l.want = append(l.want, wanted{maphash.Bytes(l.seed, ix), v.Seq})
		}
		if err := b.checkVersion(txn, c, l, vd, blocks, v, sum); err != nil {
			return err
		}
	}
	if err := grouped(math.MaxUint64); err != nil {
		return err
	}
	for blk, t := range blocks {
		if have, ok := b.readTimes(blk); !ok || have.Min > t.Min || have.Max < t.Max || have.Who != 0 && have.Who != t.Who {
			c.problem("time block %d is wrong", blk)
			if err := b.w.Set(keyTimes(blk*timeBlock), t.bytes()); err != nil {
				return err
			}
		}
	}
	slices.SortFunc(l.want, func(a, b wanted) int { return cmp.Compare(a.sum, b.sum) })
	l.have = make([]bool, len(l.want))
	return nil
}

// checkVersion compares a version with the contents. sum is that of its record.
func (b *batch) checkVersion(txn *badger.Txn, c *Check, l *look, vd *content.Verified, blocks map[uint64]times, v Version, sum uint64) error {
	c.Versions++
	l.top = max(l.top, v.Seq)
	blk := v.Seq / timeBlock
	t, ok := blocks[blk]
	blocks[blk] = t.with(&v, ok)
	l.newest[v.Path] = newest{v.Seq, sum}
	if v.Blob == (Hash{}) {
		return nil
	}
	missing := false
	if !vd.Has(v.Blob) { // it may have been stored since Verify
		kept, err := content.InSnapshot(txn, v.Blob)
		missing = !kept && err == nil
	}
	if !missing && !vd.Bad[v.Blob] {
		return nil
	}
	if missing {
		c.problem("version %d (%q): its content is missing", v.Seq, string(v.Path))
	}
	c.Lost = append(c.Lost, v.Seq)
	l.lost[v.Seq] = true
	v.Blob, v.NoContent = Hash{}, "damaged"
	return b.replace(&v)
}

// checkGroups reads the groups. It queues the removal of those that cannot be read, and of lists
// that belong to none.
func (b *batch) checkGroups(txn *badger.Txn, c *Check) (all []*members, err error) {
	lists := map[uint64]bool{}
	b.s.groups.lists.Clear()
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{kGroup}})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		key := it.Item().KeyCopy(nil)
		var m *members
		err := it.Item().Value(func(val []byte) error {
			g, _, err := parseGroup(key, val)
			if err == nil {
				m, err = b.s.members(txn, g)
			}
			return err
		})
		switch {
		case err == nil:
			all = append(all, m)
			lists[m.group.list] = true
		case errors.Is(err, ErrDamaged), errors.Is(err, ErrNotFound):
			c.problem("versions from %x on: %v", key[1:], err)
			if err := b.w.Del(key); err != nil {
				return nil, err
			}
		default:
			return nil, err
		}
	}
	stray := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{kList}})
	defer stray.Close()
	for stray.Rewind(); stray.Valid(); stray.Next() {
		key := stray.Item().KeyCopy(nil)
		if len(key) != 13 || !lists[binary.BigEndian.Uint64(key[1:])] {
			if err := b.stray(c, key); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// checkCurrent compares the c keys with the newest versions.
func (b *batch) checkCurrent(ctx context.Context, txn *badger.Txn, c *Check, l *look) error {
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{kCurrent}})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		p := Path(it.Item().Key()[1:])
		n, known := l.newest[p]
		if !known {
			if err := b.stray(c, it.Item().KeyCopy(nil)); err != nil {
				return err
			}
			continue
		}
		err := it.Item().Value(func(val []byte) error {
			v, err := decodeCurrent(val)
			if err == nil && v.Seq == n.seq && maphash.Bytes(l.seed, val[8:]) == n.sum && !l.lost[n.seq] {
				delete(l.newest, p)
				l.count(&v)
			}
			return nil
		})
		if err != nil {
			return damaged(err)
		}
	}
	for p, n := range l.newest {
		v, err := b.version(n.seq)
		if err != nil {
			return err
		}
		if !l.lost[n.seq] {
			c.problem("the newest version of %q is not recorded", string(p))
		}
		l.count(&v)
		if err := b.w.Set(keyCurrent(p), encodeCurrent(&v, encode(&v))); err != nil {
			return err
		}
	}
	return nil
}

// checkIndexes finds missing index keys and index keys without a version.
func (b *batch) checkIndexes(ctx context.Context, txn *badger.Txn, c *Check, l *look) error {
	for _, prefix := range []byte{kPath, kIndex} {
		it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{prefix}})
		for it.Rewind(); it.Valid() && ctx.Err() == nil; it.Next() {
			if !l.found(it.Item().Key()) {
				if err := b.stray(c, it.Item().KeyCopy(nil)); err != nil {
					it.Close()
					return err
				}
			}
		}
		it.Close()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for i, w := range l.want {
		if l.have[i] {
			continue
		}
		v, err := b.s.versionIn(txn, w.seq)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		if g := b.s.groups.covering(w.seq); g != nil {
			v = g.common()
		}
		for _, ix := range keysOf(&v) {
			if maphash.Bytes(l.seed, ix) != w.sum {
				continue
			}
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
	return nil
}

// stray removes a key that belongs to no version or content.
func (b *batch) stray(c *Check, key []byte) error {
	c.problem("a %q key belongs to nothing", string(key[:1]))
	return b.w.Del(key)
}

// checkCounters compares the counters of the state with what was found.
func (b *batch) checkCounters(c *Check, l *look) error {
	have, err := b.counted(c, l)
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

// recount corrects the counters of the state.
func (b *batch) recount(c *Check, l *look) error {
	n, err := b.counted(c, l)
	if err == nil {
		b.next, b.contents.Counts = n, n.counts()
	}
	return err
}

// counted returns the state with the counters that it has after this batch.
func (b *batch) counted(c *Check, l *look) (State, error) {
	n := b.next
	n.Versions, n.Files, n.Seq = uint64(c.Versions), l.files, max(n.Seq, l.top)
	blobs, err := content.Count(b.w.Txn)
	n.setCounts(blobs)
	return n, err
}
