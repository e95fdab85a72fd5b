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
func (s *Store) Fsck(ctx context.Context, repair bool) (*Check, error) {
	s.tidyMu.Lock()
	defer s.tidyMu.Unlock()
	c := &Check{}
	if repair {
		s.contents.FetchPacks(c.problem)
	}
	vd, err := s.contents.Verify(ctx, c.problem)
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
	f := &fsck{Check: c, b: b, verified: &vd, seed: maphash.MakeSeed(), newest: map[Path]newest{}, blocks: map[uint64]times{}, lost: map[uint64]bool{}}
	if err := f.checkLog(ctx); err != nil {
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
	if err := f.recount(); err != nil {
		return c, err
	}
	s.current.Clear()
	s.contents.Forget()
	s.nodes.Clear()
	c.Repaired = len(c.Problems)
	if err := b.commit(); err != nil {
		return c, err
	}
	s.upToDateLists = newUpToDateLists()
	return c, s.groups.load(s.db)
}

// fsck is one run of Fsck. Its walk through the log collects what the walks through the indexes
// need. Looking up each version and each of its keys would take eight times as long.
type fsck struct {
	*Check
	b        *batch // makes the repairs
	verified *content.Verified
	seed     maphash.Seed
	want     []wanted // index keys that must exist, sorted by sum
	have     []bool   // have[i]: the key want[i] exists
	newest   map[Path]newest
	blocks   map[uint64]times
	lost     map[uint64]bool // see Check.Lost
	top      uint64          // the highest number of a version
	files    uint64          // see State.Files; complete after checkCurrent
}

// wanted is the hash of an index key that version seq must have.
type wanted struct{ sum, seq uint64 }

// newest is the number of a path's newest version and the hash of its record.
type newest struct{ seq, sum uint64 }

// markPresent marks an index key as present. It returns false if no version has this key.
func (f *fsck) markPresent(key []byte) bool {
	sum := maphash.Bytes(f.seed, key)
	i, ok := slices.BinarySearchFunc(f.want, sum, func(w wanted, sum uint64) int { return cmp.Compare(w.sum, sum) })
	if ok {
		f.have[i] = true
	}
	return ok
}

// countFile adds the newest version of a path to the file counter.
func (f *fsck) countFile(v *Version) {
	if !v.Deleted() && !v.Stat.IsDir() {
		f.files++
	}
}

// keysOf returns the index keys of a version.
func keysOf(v *Version) [][]byte { return append(indexes(v), keyPath(v.Path, v.Seq)) }

// checkLog reads each version, compares the log with its indexes, and makes repairs in the batch.
func (f *fsck) checkLog(ctx context.Context) error {
	err := f.b.s.db.View(func(txn *badger.Txn) error {
		if err := f.checkVersions(ctx, txn); err != nil {
			return err
		}
		if err := f.checkCurrent(ctx, txn); err != nil {
			return err
		}
		if err := f.checkIndexes(ctx, txn); err != nil {
			return err
		}
		pieces, err := content.StrayPieces(ctx, txn)
		for _, key := range pieces {
			if err := f.stray(key); err != nil {
				return err
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	return f.checkCounters()
}

// checkVersions compares the log with the contents and the time blocks.
func (f *fsck) checkVersions(ctx context.Context, txn *badger.Txn) error {
	groups, err := f.checkGroups(txn)
	if err != nil {
		return err
	}
	checkGroupsBefore := func(before uint64) error {
		for ; len(groups) > 0 && groups[0].first < before; groups = groups[1:] {
			g, common := groups[0], groups[0].common()
			for _, ix := range indexes(&common) {
				f.want = append(f.want, wanted{maphash.Bytes(f.seed, ix), g.first})
			}
			err := g.each(func(v Version) error {
				return f.checkVersion(txn, v, maphash.Bytes(f.seed, encode(&v)))
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
			sum = maphash.Bytes(f.seed, val)
			v, err = decodeVersion(key, val)
			return err
		})
		if err != nil {
			f.problem("version %x: %v", key[1:], err)
			if err := f.b.w.Del(key); err != nil {
				return err
			}
			continue
		}
		if err := checkGroupsBefore(v.Seq); err != nil {
			return err
		}
		for _, ix := range keysOf(&v) {
			f.want = append(f.want, wanted{maphash.Bytes(f.seed, ix), v.Seq})
		}
		if err := f.checkVersion(txn, v, sum); err != nil {
			return err
		}
	}
	if err := checkGroupsBefore(math.MaxUint64); err != nil {
		return err
	}
	for blk, t := range f.blocks {
		have, ok := f.b.readTimes(blk)
		covers := have.Min <= t.Min && t.Max <= have.Max
		if !ok || !covers || have.Who != 0 && have.Who != t.Who {
			f.problem("time block %d is wrong", blk)
			if err := f.b.w.Set(keyTimes(blk*BlockVersions), t.bytes()); err != nil {
				return err
			}
		}
	}
	slices.SortFunc(f.want, func(a, b wanted) int { return cmp.Compare(a.sum, b.sum) })
	f.have = make([]bool, len(f.want))
	return nil
}

// checkVersion compares a version with the contents. sum is the hash of its record.
func (f *fsck) checkVersion(txn *badger.Txn, v Version, sum uint64) error {
	f.Versions++
	f.top = max(f.top, v.Seq)
	blk := v.Seq / BlockVersions
	t, ok := f.blocks[blk]
	f.blocks[blk] = t.with(&v, ok)
	f.newest[v.Path] = newest{v.Seq, sum}
	if v.Blob == (Hash{}) {
		return nil
	}
	missing := false
	if !f.verified.Has(v.Blob) { // it may have been stored after Verify ran
		kept, err := content.InSnapshot(txn, v.Blob)
		missing = !kept && err == nil
	}
	if !missing && !f.verified.Bad[v.Blob] {
		return nil
	}
	if missing {
		f.problem("version %d (%q): its content is missing", v.Seq, string(v.Path))
	}
	f.Lost = append(f.Lost, v.Seq)
	f.lost[v.Seq] = true
	v.Blob, v.NoContent = Hash{}, "damaged"
	return f.b.replace(&v)
}

// checkGroups reads the groups. It queues the removal of groups that cannot be read, and of lists
// that belong to no group.
func (f *fsck) checkGroups(txn *badger.Txn) (all []*members, err error) {
	lists := map[uint64]bool{}
	f.b.s.groups.lists.Clear()
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{kGroup}})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		key := it.Item().KeyCopy(nil)
		var m *members
		err := it.Item().Value(func(val []byte) error {
			g, _, err := parseGroup(key, val)
			if err == nil {
				m, err = f.b.s.groups.members(txn, g)
			}
			return err
		})
		switch {
		case err == nil:
			all = append(all, m)
			lists[m.group.list] = true
		case errors.Is(err, ErrDamaged), errors.Is(err, ErrNotFound):
			f.problem("versions from %x on: %v", key[1:], err)
			if err := f.b.w.Del(key); err != nil {
				return nil, err
			}
		default:
			return nil, err
		}
	}
	stored := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{kList}})
	defer stored.Close()
	for stored.Rewind(); stored.Valid(); stored.Next() {
		key := stored.Item().KeyCopy(nil)
		if len(key) != 13 || !lists[binary.BigEndian.Uint64(key[1:])] {
			if err := f.stray(key); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// checkCurrent compares the recorded newest version of each path with the log.
func (f *fsck) checkCurrent(ctx context.Context, txn *badger.Txn) error {
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{kCurrent}})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		p := Path(it.Item().Key()[1:])
		n, known := f.newest[p]
		if !known {
			if err := f.stray(it.Item().KeyCopy(nil)); err != nil {
				return err
			}
			continue
		}
		err := it.Item().Value(func(val []byte) error {
			v, err := decodeCurrent(val)
			if err == nil && v.Seq == n.seq && maphash.Bytes(f.seed, val[8:]) == n.sum && !f.lost[n.seq] {
				delete(f.newest, p)
				f.countFile(&v)
			}
			return nil
		})
		if err != nil {
			return damaged(err)
		}
	}
	for p, n := range f.newest {
		v, err := f.b.version(n.seq)
		if err != nil {
			return err
		}
		if !f.lost[n.seq] {
			f.problem("the newest version of %q is not recorded", string(p))
		}
		f.countFile(&v)
		if err := f.b.w.Set(keyCurrent(p), encodeCurrent(&v, encode(&v))); err != nil {
			return err
		}
	}
	return nil
}

// checkIndexes finds missing index keys and index keys without a version.
func (f *fsck) checkIndexes(ctx context.Context, txn *badger.Txn) error {
	for _, prefix := range []byte{kPath, kIndex} {
		it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{prefix}})
		for it.Rewind(); it.Valid() && ctx.Err() == nil; it.Next() {
			if !f.markPresent(it.Item().Key()) {
				if err := f.stray(it.Item().KeyCopy(nil)); err != nil {
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
	for i, w := range f.want {
		if f.have[i] {
			continue
		}
		v, err := f.b.s.versionIn(txn, w.seq)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		if g := f.b.s.groups.covering(w.seq); g != nil {
			v = g.common()
		}
		for _, ix := range keysOf(&v) {
			if maphash.Bytes(f.seed, ix) != w.sum {
				continue
			}
			f.problem("version %d: an index key is missing", v.Seq)
			var val []byte
			if ix[0] == kPath {
				val = []byte{byte(v.Op), byte(v.Class)}
			}
			if err := f.b.w.Set(ix, val); err != nil {
				return err
			}
		}
	}
	return nil
}

// stray removes a key that belongs to no version or content.
func (f *fsck) stray(key []byte) error {
	f.problem("a %q key refers to nothing", string(key[:1]))
	return f.b.w.Del(key)
}

// checkCounters compares the counters of the state with the counts of this check.
func (f *fsck) checkCounters() error {
	have, err := f.correctState()
	if err != nil {
		return err
	}
	was := f.b.next
	if was.Versions != have.Versions || was.Files != have.Files || was.Blobs != have.Blobs || was.BlobBytes != have.BlobBytes {
		f.problem("the counters say %d versions, %d files, %d contents of %d bytes; there are %d, %d, %d of %d",
			was.Versions, was.Files, was.Blobs, was.BlobBytes, have.Versions, have.Files, have.Blobs, have.BlobBytes)
	}
	return nil
}

// recount corrects the counters of the state.
func (f *fsck) recount() error {
	n, err := f.correctState()
	if err == nil {
		f.b.next, f.b.contents.Counts = n, n.counts()
	}
	return err
}

// correctState returns the state with the counters that are correct after the repairs of this batch.
func (f *fsck) correctState() (State, error) {
	n := f.b.next
	n.Versions, n.Files = uint64(f.Versions), f.files
	n.Seq = max(n.Seq, f.top)
	blobs, err := content.Count(f.b.w.Txn)
	n.setCounts(blobs)
	return n, err
}
