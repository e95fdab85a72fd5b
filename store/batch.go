package store

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"cachebro/store/content"
	"cachebro/store/db"

	badger "github.com/dgraph-io/badger/v4"
)

// batch collects what one Apply writes. The caller holds writeMu while the batch exists.
type batch struct {
	s        *Store
	w        *db.Writer
	contents *content.Batch
	next     State
	made     []Version
	cur      map[Path]Version     // newest versions made or looked up
	dirty    map[Path][]byte      // paths of cur that this batch changed, with the encoded version; nil: not encoded yet
	counts   map[Inode]*linkCount // looked up or changed
	nodes    map[uint64]*node     // nil removes the node from the table
	times    map[uint64]times
	working  map[workingKey]*WorkingFile
	links    map[Inode][]Path // names noted by this batch
	groups   batchGroups
	index    int // index of the current change
}

func (s *Store) newBatch() *batch {
	w, next := s.db.NewWriter(), s.next
	next.BaselineRuns = slices.Clone(next.BaselineRuns)
	return &batch{
		s: s, w: w, contents: s.contents.Batch(w, s.next.counts()), next: next, links: map[Inode][]Path{}, counts: map[Inode]*linkCount{},
		cur: map[Path]Version{}, dirty: map[Path][]byte{}, nodes: map[uint64]*node{},
		times: map[uint64]times{}, working: map[workingKey]*WorkingFile{}, groups: s.groups.newBatch(w, s.upToDateLists),
	}
}

// discard drops a batch that was not committed, and removes what its earlier transactions have
// already written.
func (b *batch) discard() {
	if b.w == nil {
		return
	}
	b.w.Close()
	b.w = nil
	if b.next.Seq != b.s.next.Seq {
		if err := b.s.removeAbove(b.s.next.Seq); err != nil {
			b.s.opt.Log.Error("remove a failed batch", "err", err)
		}
	}
}

// live returns the newest version of a path and whether it exists.
func (b *batch) live(p Path) (Version, bool, error) {
	if err := b.ensureCurrent(p); err != nil {
		return Version{}, false, err
	}
	v, known := b.cur[p]
	if !known {
		var ok bool
		v, ok = b.s.current.Get(p)
		if !ok {
			item, err := b.w.Txn.Get(keyCurrent(p))
			switch {
			case err == nil:
				if err := item.Value(func(val []byte) (err error) { v, err = decodeCurrent(val); return }); err != nil {
					return v, false, damaged(err)
				}
			case !errors.Is(err, badger.ErrKeyNotFound):
				return v, false, damaged(err)
			}
		}
		b.cur[p] = v
	}
	live := v.Seq != 0 && !v.Deleted()
	if !severalNames(v) {
		return v, live, nil
	}
	v, err := b.recounted(v)
	return v, live, err
}

// changed makes v the newest version of its path. enc is its encoding, nil if unknown.
func (b *batch) changed(v Version, enc []byte) {
	b.cur[v.Path], b.dirty[v.Path] = v, enc
	b.groups.upToDateLists.touch(v.Path)
}

// add appends a version with all its keys.
func (b *batch) add(v Version) (Version, error) {
	was, wasLive, err := b.live(v.Path)
	if err != nil {
		return v, err
	}
	v.Prev = cmp.Or(v.Prev, was.Seq)
	b.next.Seq++
	v.Seq = b.next.Seq
	if err := b.place(v, was, wasLive); err != nil {
		return v, err
	}
	b.contents.Refer(v.Blob)
	b.made = append(b.made, v)
	b.edited(v, 1)
	return v, nil
}

// place writes a version that already has its number, with all its keys, and updates the
// counters.
func (b *batch) place(v, was Version, wasLive bool) error {
	b.next.Versions++
	b.next.noteRun(&v)
	if err := b.writeRewritten(was); err != nil {
		return err
	}
	enc, err := b.keys(&v)
	if err != nil {
		return err
	}
	b.inBlock(v.Seq/BlockVersions, &v)
	named := wasLive && severalNames(was) && InodeOf(was.Stat) == InodeOf(v.Stat)
	if severalNames(v) && !named {
		if err := b.name(v.Stat, v.Path); err != nil {
			return err
		}
	}
	counts := func(v Version) bool { return !v.Deleted() && !v.Stat.IsDir() }
	if wasLive && counts(was) {
		b.next.Files--
	}
	if counts(v) {
		b.next.Files++
	}
	b.changed(v, enc)
	return nil
}

// inBlock extends a time block by a version.
func (b *batch) inBlock(blk uint64, v *Version) {
	t, ok := b.times[blk]
	if !ok {
		t, ok = b.readTimes(blk)
	}
	b.times[blk] = t.with(v, ok)
}

// unencoded marks a version in batch.dirty that needs no record in the log. Only its c key is
// written.
var unencoded = []byte{}

// keys writes the version and its index keys. The path's c key is written at the end of the batch,
// because a batch of renames may give one path many versions.
func (b *batch) keys(v *Version) (enc []byte, err error) {
	enc = encode(v)
	err = b.w.Set(keyVersion(v.Seq), enc)
	if err == nil {
		err = b.w.Set(keyPath(v.Path, v.Seq), []byte{byte(v.Op), byte(v.Class)})
	}
	for _, ix := range indexes(v) {
		if err == nil {
			err = b.w.Set(ix, nil)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("write version: %w", err)
	}
	return enc, nil
}

// newest writes the c keys of all paths that the batch changed.
func (b *batch) newest() error {
	if err := b.ensureAllCurrent(); err != nil {
		return err
	}
	for p, enc := range b.dirty {
		v := b.cur[p]
		if enc == nil { // the version was rewritten
			if err := b.replace(&v); err != nil {
				return err
			}
		}
		if len(enc) == 0 {
			enc = encode(&v)
		}
		if err := b.w.Set(keyCurrent(p), encodeCurrent(&v, enc)); err != nil {
			return err
		}
	}
	return nil
}

// writeRewritten writes the path's newest version if the batch has rewritten it. It is called
// before a newer version is added.
func (b *batch) writeRewritten(was Version) error {
	if enc, ok := b.dirty[was.Path]; !ok || enc != nil || was.Seq == 0 {
		return nil
	}
	return b.replace(&was)
}

// indexes returns the version's keys in the i index.
func indexes(v *Version) [][]byte {
	var ks [][]byte
	for _, ix := range [...]struct {
		kind byte
		id   string
	}{
		{ixSession, string(v.Actor.Session)}, {ixPrompt, v.Actor.Prompt},
		{ixTool, v.Actor.ToolCall}, {ixPlan, v.Plan},
	} {
		if ix.id != "" {
			ks = append(ks, keyIndex(ix.kind, ix.id, v.Seq))
		}
	}
	return ks
}

// refresh updates the times of cur, a newest version whose content was found unchanged.
func (b *batch) refresh(cur, seen Version) error {
	seen.Stat.Attrs = cmp.Or(seen.Stat.Attrs, cur.Stat.Attrs)
	if cur.Stat == seen.Stat && cur.Idle == seen.Idle && cur.Foreign == seen.Foreign && seen.Linked <= cur.Linked {
		return nil
	}
	if seen.Stat.Nlink > 1 && cur.Stat.Nlink < 2 && isRegular(seen.Stat) {
		if err := b.name(seen.Stat, cur.Path); err != nil {
			return err
		}
	}
	if seen.Stat.Nlink != cur.Stat.Nlink && max(seen.Stat.Nlink, cur.Stat.Nlink) > 1 {
		if err := b.countNames(seen.Stat, 0, 0); err != nil {
			return err
		}
	}
	// A version is idle if the file was still open when it was captured. It is not idle any more if
	// the file is closed now.
	cur.Idle = cur.Idle && seen.Idle
	cur.Foreign = cur.Foreign && seen.Foreign
	cur.Stat = seen.Stat
	cur.Linked = max(cur.Linked, seen.Linked)
	b.changed(cur, nil)
	return nil
}

func (b *batch) readTimes(blk uint64) (times, bool) {
	item, err := b.w.Txn.Get(keyTimes(blk * BlockVersions))
	if err != nil {
		return times{}, false
	}
	val, err := item.ValueCopy(nil)
	if err != nil {
		return times{}, false
	}
	return parseTimes(val)
}

// below lists the existing paths in a directory's subtree, parents first.
func (b *batch) below(dir Path) ([]Path, error) {
	var out []Path
	if err := b.ensureAllCurrent(); err != nil {
		return nil, err
	}
	it := b.w.Snapshot().NewIterator(badger.IteratorOptions{Prefix: keyCurrent(below(dir))})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		p := Path(it.Item().Key()[1:])
		if _, changed := b.dirty[p]; changed || p == dir {
			continue
		}
		gone := false
		err := it.Item().Value(func(val []byte) (err error) { gone, err = currentDeleted(val); return })
		if err != nil {
			return nil, damaged(err)
		}
		if !gone {
			out = append(out, p)
		}
	}
	for p := range b.dirty {
		if p != dir && p.Inside(dir) && !b.cur[p].Deleted() {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out, nil
}

// commit writes the contents, then everything else, and the state last. Then it publishes the
// batch.
func (b *batch) commit() error {
	if err := b.flush(); err != nil {
		return fmt.Errorf("store a batch: %w", db.FailedWrite(err))
	}
	s := b.s
	for id, n := range b.nodes {
		switch {
		case n == nil:
			s.nodes.Drop(id)
		case id != 0: // 0 is unknown
			s.nodes.Put(id, n)
		}
	}
	for p := range b.dirty {
		s.current.Put(p, b.cur[p])
	}
	b.contents.Committed()
	unused := b.groups.publish()
	s.upToDateLists = b.groups.upToDateLists
	s.next = b.next
	st := b.next
	s.state.Store(&st)
	b.w = nil
	return s.groups.dropLists(s.db, unused)
}

func (b *batch) flush() error {
	// The newest versions are written before the contents, so that the contents and the state that
	// counts them share a transaction if they fit.
	if err := b.newest(); err != nil {
		return err
	}
	if err := b.contents.Flush(); err != nil {
		return err
	}
	b.next.setCounts(b.contents.Counts)
	for blk, t := range b.times {
		if err := b.w.Set(keyTimes(blk*BlockVersions), t.bytes()); err != nil {
			return err
		}
	}
	if err := b.groups.flush(); err != nil {
		return err
	}
	if err := b.flushCounts(); err != nil {
		return err
	}
	if err := b.flushWorking(); err != nil {
		return err
	}
	if err := b.w.Set(keyState, encode(&b.next)); err != nil {
		return err
	}
	return b.w.Commit()
}

// store stores the content of a change. cur is the path's version before the change; i is the index
// of the change, for BaseError.
func (b *batch) store(c *Change, i int, cur Version) (Hash, error) {
	var t *content.Tail
	var err error
	in := InodeOf(c.Stat)
	if c.TailFrom > 0 {
		n := b.node(c)
		if n == nil {
			return Hash{}, &BaseError{Index: i, Path: c.Path}
		}
		in = n.inode
		t, err = b.contents.Append(n.tail, c.TailFrom, c.Content)
		if errors.Is(err, ErrNoBase) {
			err = &BaseError{Index: i, Path: c.Path}
		}
	} else {
		t, err = b.contents.Put(c.Content, func() Hash { return b.predecessor(cur) })
	}
	if err != nil {
		return Hash{}, err
	}
	if c.Node != 0 && in != (Inode{}) {
		b.nodes[c.Node] = &node{in, t}
	}
	return t.Hash(), nil
}

// put stores a content. cur is a version with a probably similar content.
func (b *batch) put(bytes []byte, cur Version) (Hash, error) {
	t, err := b.contents.Put(bytes, func() Hash { return b.predecessor(cur) })
	if err != nil {
		return Hash{}, err
	}
	return t.Hash(), nil
}

// node returns the content that the change's file had before, or nil if it is not certain. This is
// the newest content of the path, if the path belongs to the same inode. The node table only saves
// hashing that content again. It cannot be trusted alone, because node numbers start anew with each
// mount, and the file may have changed while nothing was mounted. A file with several names must be
// in the table, because its content may have changed under another name.
func (b *batch) node(c *Change) *node {
	cur, live, err := b.live(c.Path)
	if err != nil || !live || cur.Blob == (Hash{}) || InodeOf(cur.Stat) != InodeOf(c.Stat) {
		return nil
	}
	n, ok := b.nodes[c.Node]
	if !ok {
		n, _ = b.s.nodes.Get(c.Node)
	}
	if n != nil && n.inode == InodeOf(c.Stat) && n.tail.Hash() == cur.Blob {
		return n
	}
	if c.Stat.Ino == 0 || cur.Stat.Nlink > 1 || c.Stat.Nlink > 1 {
		return nil
	}
	t, err := b.contents.Tail(cur.Blob)
	if err != nil {
		return nil
	}
	return &node{InodeOf(c.Stat), t}
}

func (b *batch) forget(node uint64) {
	if node != 0 {
		b.nodes[node] = nil
	}
}

// predecessor returns the stored content that is probably most similar to the path's next one. This
// is the newest content, or the last one before the path was deleted.
func (b *batch) predecessor(cur Version) Hash {
	for range 3 {
		if cur.Seq == 0 || cur.Blob != (Hash{}) || cur.Prev == 0 {
			break
		}
		older, err := b.version(cur.Prev)
		if err != nil {
			break
		}
		cur = older
	}
	return cur.Blob
}

// removeAbove removes all versions above seq. Their batch is incomplete because its last
// transaction is missing.
func (s *Store) removeAbove(seq uint64) error {
	var gone []Version
	err := s.db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{PrefetchValues: true, PrefetchSize: 100, Prefix: []byte{kVersion}})
		defer it.Close()
		for it.Seek(keyVersion(seq + 1)); it.Valid(); it.Next() {
			err := it.Item().Value(func(val []byte) error {
				v, err := decodeVersion(it.Item().Key(), val)
				gone = append(gone, v)
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return damaged(err)
	}
	s.upToDateLists = newUpToDateLists()
	if err := s.removeGroupsAbove(seq); err != nil || len(gone) == 0 {
		return damaged(err)
	}
	s.current.Clear()
	w := s.db.NewWriter()
	defer w.Close()
	// Remove the newest first. After a crash, the rest can still be found by its v keys.
	for i := len(gone) - 1; i >= 0; i-- {
		v := &gone[i]
		if err := s.restoreCurrent(w, v.Path, seq); err != nil {
			return err
		}
		for _, k := range append(keysOf(v), keyVersion(v.Seq)) {
			if err := w.Del(k); err != nil {
				return err
			}
		}
	}
	return w.Commit()
}

// restoreCurrent sets the c key of a path to its newest version up to seq.
func (s *Store) restoreCurrent(w *db.Writer, p Path, seq uint64) error {
	v, found, err := (&View{s: s, txn: w.Snapshot(), seq: seq}).newest(p, seq)
	if err != nil {
		return err
	}
	if !found {
		return w.Del(keyCurrent(p))
	}
	return w.Set(keyCurrent(p), encodeCurrent(&v, encode(&v)))
}

// preloadFrom is the number of unknown paths at which one walk becomes faster than single look-ups.
const preloadFrom = 16

// preload reads the newest versions of many paths in one walk, because paths that change together
// are usually neighbours. For rm -rf of a large directory, looking up each path would take half of
// Apply's time.
func (b *batch) preload(all []Path) error {
	if len(all) < preloadFrom {
		return nil
	}
	paths := make([]Path, 0, len(all))
	for _, p := range all {
		if _, known := b.cur[p]; known || p == "" {
			continue
		}
		if v, ok := b.s.current.Get(p); ok {
			b.cur[p] = v
			continue
		}
		paths = append(paths, p)
	}
	if len(paths) < preloadFrom {
		return nil
	}
	slices.Sort(paths)
	w := db.NewWalk(b.w.Snapshot(), []byte{kCurrent})
	defer w.It.Close()
	for i, p := range slices.Compact(paths) {
		if !w.Pays(i) {
			return nil
		}
		key := keyCurrent(p)
		w.To(key)
		var v Version
		if w.It.Valid() && bytes.Equal(w.It.Item().Key(), key) {
			err := w.It.Item().Value(func(val []byte) (err error) { v, err = decodeCurrent(val); return })
			if err != nil {
				return damaged(err)
			}
		}
		b.cur[p] = v
	}
	return nil
}
