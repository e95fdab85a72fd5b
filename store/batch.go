package store

import (
	"errors"
	"fmt"
	"slices"

	"cachebro/store/db"

	badger "github.com/dgraph-io/badger/v4"
)

// batch collects what one Apply writes. writeMu is held for its whole life.
type batch struct {
	s     *Store
	w     *db.Writer
	next  State
	made  []Version
	cur   map[Path]Version // newest versions made or looked up
	dirty map[Path]bool    // paths of cur that this batch changed
	nodes map[uint64]*node // nil: forget it
	blobs map[Hash]*pending
	order []Hash
	times map[uint64]times
	touch map[touchKey]*Touch
	links map[inode][]Path // names noted by this batch
	at    int              // the change that it is at
}

// pending is a blob of this batch; it is written when the batch is complete,
// because a rename may still give it a better base.
type pending struct {
	header
	payload []byte
	content []byte  // nil for a tail
	was     *header // how it was kept before, when it was in the store already
	// header.pieces is how many it had before; writeBlob counts anew.
}

func (s *Store) newBatch() *batch {
	return &batch{
		s: s, w: s.db.NewWriter(), next: s.next, links: map[inode][]Path{},
		cur: map[Path]Version{}, dirty: map[Path]bool{}, nodes: map[uint64]*node{},
		blobs: map[Hash]*pending{}, times: map[uint64]times{}, touch: map[touchKey]*Touch{},
	}
}

// discard drops what was not committed. What earlier transactions of the batch
// wrote is taken back at once, so that a failed batch leaves nothing.
func (b *batch) discard() {
	if b.w == nil {
		return
	}
	b.w.Close()
	b.w = nil
	if b.next.Seq != b.s.next.Seq {
		if err := b.s.takeBack(b.s.next.Seq); err != nil {
			b.s.opt.Log.Error("take back a failed batch", "err", err)
		}
	}
}

// live returns the newest version of a path and whether it exists.
func (b *batch) live(p Path) (Version, bool, error) {
	v, known := b.cur[p]
	if !known {
		var ok bool
		if v, ok = b.s.current.get(p); !ok {
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
	return v, v.Seq != 0 && !v.Deleted(), nil
}

// add appends a version with all its keys.
func (b *batch) add(v Version) (Version, error) {
	was, wasLive, err := b.live(v.Path)
	if err != nil {
		return v, err
	}
	if v.Prev == 0 {
		v.Prev = was.Seq
	}
	b.next.Seq++
	v.Seq = b.next.Seq
	if err := b.place(v, was, wasLive); err != nil {
		return v, err
	}
	if b.s.fresh != nil {
		b.s.fresh[v.Blob] = true
	}
	b.made = append(b.made, v)
	b.edited(v)
	return v, nil
}

// place writes a version that has its number, with all its keys, and counts it.
func (b *batch) place(v, was Version, wasLive bool) error {
	b.next.Versions++
	if err := b.keys(&v); err != nil {
		return err
	}
	blk := v.Seq / timeBlock
	t, ok := b.times[blk]
	if !ok {
		t, ok = b.readTimes(blk)
	}
	if !ok {
		t = times{v.Time, v.Time}
	}
	b.times[blk] = times{min(t.Min, v.Time), max(t.Max, v.Time)}
	if v.Stat.Nlink > 1 && v.Stat.Ino != 0 && !isDir(v.Stat) && !v.Deleted() {
		if err := b.name(v.Stat, v.Path); err != nil {
			return err
		}
	}
	counts := func(v Version) bool { return !v.Deleted() && !isDir(v.Stat) }
	if wasLive && counts(was) {
		b.next.Files--
	}
	if counts(v) {
		b.next.Files++
	}
	b.cur[v.Path], b.dirty[v.Path] = v, true
	return nil
}

// keys writes the version and its index keys.
func (b *batch) keys(v *Version) error {
	enc := encode(v)
	sets := []struct{ k, v []byte }{
		{keyVersion(v.Seq), enc},
		{keyCurrent(v.Path), encodeCurrent(v, enc)},
		{keyPath(v.Path, v.Seq), []byte{byte(v.Op), byte(v.Class)}},
	}
	for _, ix := range indexes(v) {
		sets = append(sets, struct{ k, v []byte }{ix, nil})
	}
	for _, set := range sets {
		if err := b.w.Set(set.k, set.v); err != nil {
			return fmt.Errorf("write version: %w", err)
		}
	}
	return nil
}

// indexes are the i keys of a version.
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

// refresh notes that the newest version was found again, with newer times.
func (b *batch) refresh(cur, seen Version) error {
	if seen.Stat.Attrs == "" {
		seen.Stat.Attrs = cur.Stat.Attrs
	}
	if cur.Stat == seen.Stat && cur.Idle == seen.Idle && cur.Foreign == seen.Foreign && seen.Linked <= cur.Linked {
		return nil
	}
	// A version that was quiet and is now closed is no longer "idle".
	if seen.Stat.Nlink > 1 && cur.Stat.Nlink < 2 && isRegular(seen.Stat) {
		if err := b.name(seen.Stat, cur.Path); err != nil {
			return err
		}
	}
	cur.Stat, cur.Idle, cur.Foreign = seen.Stat, cur.Idle && seen.Idle, cur.Foreign && seen.Foreign
	cur.Linked = max(cur.Linked, seen.Linked)
	enc := encode(&cur)
	if err := b.w.Set(keyVersion(cur.Seq), enc); err != nil {
		return err
	}
	b.cur[cur.Path], b.dirty[cur.Path] = cur, true
	return b.w.Set(keyCurrent(cur.Path), encodeCurrent(&cur, enc))
}

func (b *batch) readTimes(blk uint64) (times, bool) {
	item, err := b.w.Txn.Get(keyTimes(blk * timeBlock))
	if err != nil {
		return times{}, false
	}
	val, err := item.ValueCopy(nil)
	if err != nil {
		return times{}, false
	}
	return parseTimes(val)
}

// below lists the known paths below a directory that exist, parents first.
func (b *batch) below(dir Path) ([]Path, error) {
	var out []Path
	it := b.w.Snapshot().NewIterator(badger.IteratorOptions{Prefix: keyCurrent(below(dir))})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		p := Path(it.Item().Key()[1:])
		if b.dirty[p] || p == dir {
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
		if p != dir && inside(p, dir) && !b.cur[p].Deleted() {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out, nil
}

// name notes one of several names of an inode.
func (b *batch) name(st Stat, p Path) error {
	in := inodeOf(st)
	b.links[in] = append(b.links[in], p)
	return b.w.Set(keyLink(st, p), nil)
}

// names lists the other names that an inode is known to have had.
func (b *batch) names(st Stat, but Path) ([]Path, error) {
	prefix := keyLinkPrefix(st)
	it := b.w.Snapshot().NewIterator(badger.IteratorOptions{Prefix: prefix})
	defer it.Close()
	out := slices.Clone(b.links[inodeOf(st)])
	for it.Rewind(); it.Valid(); it.Next() {
		out = append(out, Path(it.Item().KeyCopy(nil)[len(prefix):]))
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return slices.DeleteFunc(out, func(p Path) bool { return p == but }), nil
}

// countNames notes in the newest versions of an inode's other names that it has so
// many names more than st says; linked: see Version.Linked.
func (b *batch) countNames(st Stat, but Path, more int, linked int64) error {
	n := int(st.Nlink) + more
	if n < 1 || st.Ino == 0 || isDir(st) || n == 1 && more > 0 {
		return nil
	}
	names, err := b.names(st, but)
	if err != nil {
		return err
	}
	for _, p := range names {
		cur, live, err := b.live(p)
		if err != nil {
			return err
		}
		if !live || inodeOf(cur.Stat) != inodeOf(st) || cur.Stat.Nlink == uint32(n) && linked == 0 {
			continue
		}
		now := cur.Stat
		if now.Nlink = uint32(n); more > 0 {
			now.Ctime = st.Ctime
		}
		if err := b.refresh(cur, Version{Stat: now, Idle: cur.Idle, Foreign: cur.Foreign, Linked: linked}); err != nil {
			return err
		}
	}
	return nil
}

// commit writes the blobs, the rest and last the state, and publishes it.
func (b *batch) commit() error {
	if err := b.flush(); err != nil {
		return fmt.Errorf("store a batch: %w", db.FailedWrite(err))
	}
	s := b.s
	for id, n := range b.nodes {
		if n == nil {
			delete(s.nodes.young, id)
			delete(s.nodes.old, id)
			continue
		}
		s.nodes.put(id, n)
	}
	for p := range b.dirty {
		s.current.put(p, b.cur[p])
	}
	for h, p := range b.blobs {
		if p.content != nil {
			s.contents.put(h, p.content)
		}
	}
	s.next = b.next
	st := b.next
	s.state.Store(&st)
	b.w = nil
	return nil
}

func (b *batch) flush() error {
	for _, h := range b.order {
		if err := b.writeBlob(h, b.blobs[h]); err != nil {
			return err
		}
	}
	for blk, t := range b.times {
		if err := b.w.Set(keyTimes(blk*timeBlock), t.bytes()); err != nil {
			return err
		}
	}
	if err := b.flushTouches(); err != nil {
		return err
	}
	if err := b.w.Set(keyState, encode(&b.next)); err != nil {
		return err
	}
	return b.w.Commit()
}
