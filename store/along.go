package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"cachebro/store/db"

	badger "github.com/dgraph-io/badger/v4"
)

// This file makes groups (see group.go).

// upToDateLists records which groups still have an up-to-date list of paths (see group.go). It is
// guarded by writeMu. Each batch has its own copy.
type upToDateLists struct {
	unchanged map[Path]*group // directories whose subtree has not changed since the group was made
	vacated   map[Path]bool   // old paths of groups where nothing was created since
}

func (t upToDateLists) clone() upToDateLists {
	return upToDateLists{maps.Clone(t.unchanged), maps.Clone(t.vacated)}
}

// touch drops the entries of a path and of its parent directories.
func (t upToDateLists) touch(p Path) {
	if len(t.unchanged)+len(t.vacated) == 0 {
		return
	}
	for {
		delete(t.unchanged, p)
		delete(t.vacated, p)
		if p == "" {
			return
		}
		p = p.Dir()
	}
}

// touchBelow drops the entries of a path and its subtree.
func (t upToDateLists) touchBelow(p Path) {
	maps.DeleteFunc(t.unchanged, func(o Path, _ *group) bool { return o.Inside(p) })
	maps.DeleteFunc(t.vacated, func(o Path, _ bool) bool { return o.Inside(p) })
}

// moved records that a group moved a directory.
func (t upToDateLists) moved(g *group) {
	if len(t.unchanged) >= maxUpToDateLists || len(t.vacated) >= maxUpToDateLists {
		clear(t.unchanged)
		clear(t.vacated)
	}
	t.touchBelow(g.from)
	t.touchBelow(g.to)
	t.unchanged[g.to], t.vacated[g.from] = g, true
}

// batchGroups holds the groups that a batch makes and alters.
type batchGroups struct {
	w             *db.Writer
	stored        *groups
	upToDateLists upToDateLists
	made          []*group // in order
	lists         map[uint64]*list
	due           map[Path]*group // the last group of each renamed directory (old and new path) whose files are not in batch.cur yet
	edits         map[workingKey]*edits
	altered       map[uint64]*members // groups to write again, by first number
}

// edits counts, for a session's working set, how often the session moved a directory's files.
type edits struct {
	n    int
	last *group
}

func (gs *groups) newBatch(w *db.Writer, t upToDateLists) batchGroups {
	return batchGroups{w: w, stored: gs, upToDateLists: t.clone(), lists: map[uint64]*list{}, due: map[Path]*group{}, edits: map[workingKey]*edits{}, altered: map[uint64]*members{}}
}

// group makes a group for the subtree of a renamed directory. tip is an earlier group of the
// directory whose list is still up to date, or nil. If group returns false, it made none, and each
// path needs versions of its own.
func (b *batch) group(c *Change, tip *group, kids []Path) (bool, error) {
	if c.Path.Inside(c.Path2) || c.Path2.Inside(c.Path) {
		return false, nil
	}
	if tip != nil {
		return true, b.addGroup(c, tip.list, tip.first)
	}
	if len(kids) < minGroup || len(kids) > maxGroup {
		return false, nil
	}
	there, err := b.below(c.Path2)
	if err != nil || len(there) > 0 {
		return false, err
	}
	was := make([]Version, 0, len(kids))
	for _, kid := range kids {
		v, live, err := b.live(kid)
		if err != nil {
			return false, err
		}
		if !live {
			continue
		}
		if severalNames(v) { // place must record the names of such a file
			return false, nil
		}
		was = append(was, Version{
			Path: kid[len(below(c.Path)):], Class: v.Class, Target: v.Target, Blob: v.Blob, NoContent: v.NoContent, Stat: v.Stat,
			Prev: v.Seq, Foreign: v.Foreign,
		})
	}
	if len(was) < minGroup {
		return false, nil
	}
	number := b.next.Seq + 1
	for i, part := 0, was; len(part) > 0; i++ {
		n := min(len(part), listPiece)
		var val []byte
		for j := range part[:n] {
			b.contents.Refer(part[j].Blob)
			enc := encode(&part[j])
			val = append(binary.AppendUvarint(val, uint64(len(enc))), enc...)
		}
		if err := b.w.Set(keyList(number, i), val); err != nil {
			return false, err
		}
		part = part[n:]
	}
	for i := range was {
		if err := b.writeRewritten(b.cur[below(c.Path)+was[i].Path]); err != nil {
			return false, err
		}
	}
	b.groups.lists[number] = newList(was)
	return true, b.addGroup(c, number, 0)
}

// addGroup makes a group that refers to the list with this number.
func (b *batch) addGroup(c *Change, number, prev uint64) error {
	l, err := b.groups.list(number)
	if err != nil {
		return err
	}
	actor := c.Actor
	g := &group{
		first: b.next.Seq + 1, last: b.next.Seq + uint64(2*len(l.was)), from: c.Path, to: c.Path2, list: number, prev: prev,
		time: c.Time, actor: &actor, plan: c.Plan, idle: c.Idle,
	}
	if err := b.w.Set(keyGroup(g.first), g.record(nil)); err != nil {
		return fmt.Errorf("write versions: %w", err)
	}
	common := g.common()
	for _, ix := range indexes(&common) {
		if err := b.w.Set(ix, nil); err != nil {
			return fmt.Errorf("write versions: %w", err)
		}
	}
	for blk := g.first / BlockVersions; blk <= g.last/BlockVersions; blk++ {
		b.inBlock(blk, &common)
	}
	b.next.Seq = g.last
	b.next.Versions += g.last - g.first + 1
	for _, root := range []Path{g.from, g.to} {
		if was := b.groups.due[root]; was != nil && was.list != g.list {
			if err := b.ensureAllCurrent(); err != nil {
				return err
			}
		}
	}
	b.groups.due[g.from], b.groups.due[g.to] = g, g
	if c.Actor.Session != "" {
		k := workingKey{c.Actor.Session, g.to}
		e := b.groups.edits[k]
		if e == nil {
			e = &edits{}
			b.groups.edits[k] = e
		}
		e.n, e.last = e.n+1, g
	}
	b.groups.made = append(b.groups.made, g)
	b.groups.upToDateLists.moved(g)
	return nil
}

// vacant reports whether nothing exists in a path's subtree. It returns false if finding out would
// mean looking at each path.
func (b *batch) vacant(p Path) (bool, error) {
	if b.groups.upToDateLists.vacated[p] {
		return true, nil
	}
	if err := b.ensureCurrent(p + "/"); err != nil {
		return false, err
	}
	for o := range b.dirty {
		if o != p && o.Inside(p) {
			return false, nil
		}
	}
	it := b.w.Snapshot().NewIterator(badger.IteratorOptions{Prefix: keyCurrent(below(p))})
	defer it.Close()
	it.Rewind()
	return !it.Valid(), nil
}

// ensureCurrent puts the newest version of a path into batch.cur if a group of this batch moved the
// path.
func (b *batch) ensureCurrent(p Path) error {
	for p != "" && len(b.groups.due) > 0 {
		p = p.Dir()
		if b.groups.due[p] != nil {
			return b.ensureAllCurrent()
		}
	}
	return nil
}

// ensureAllCurrent puts the newest versions of all paths that groups moved into batch.cur.
func (b *batch) ensureAllCurrent() error {
	due, counts := b.groups.due, b.groups.edits
	b.groups.due, b.groups.edits = map[Path]*group{}, map[workingKey]*edits{}
	for root, g := range due {
		l, err := b.groups.list(g.list)
		if err != nil {
			return err
		}
		seq := g.first
		if root == g.to {
			seq++
		}
		for ; seq <= g.last; seq += 2 {
			v := g.version(l, seq)
			b.cur[v.Path], b.dirty[v.Path] = v, unencoded
		}
	}
	for _, e := range counts {
		l, err := b.groups.list(e.last.list)
		if err != nil {
			return err
		}
		for seq := e.last.first + 1; seq <= e.last.last; seq += 2 {
			b.edited(e.last.version(l, seq), e.n)
		}
	}
	return nil
}

func (gs *batchGroups) list(number uint64) (*list, error) {
	if l := gs.lists[number]; l != nil {
		return l, nil
	}
	return gs.stored.listIn(gs.w.Txn, number)
}

// groupOf returns the group that has a version with this number, or nil.
func (gs *batchGroups) groupOf(seq uint64) *group {
	i, exact := slices.BinarySearchFunc(gs.made, seq, byFirst)
	if !exact {
		i--
	}
	if i >= 0 && i < len(gs.made) && seq <= gs.made[i].last {
		return gs.made[i]
	}
	return gs.stored.covering(seq)
}

// members returns the members of a group, including the changes of this batch.
func (gs *batchGroups) members(g *group) (*members, error) {
	if m := gs.altered[g.first]; m != nil {
		return m, nil
	}
	if l := gs.lists[g.list]; l != nil {
		return &members{group: g, list: l}, nil
	}
	return gs.stored.members(gs.w.Txn, g)
}

// version returns a version of the log or of this batch. It returns ErrNotFound if there is none.
func (b *batch) version(seq uint64) (Version, error) {
	g := b.groups.groupOf(seq)
	if g == nil {
		return versionOf(b.w.Txn, seq)
	}
	m, err := b.groups.members(g)
	if err != nil {
		return Version{}, err
	}
	v, ok := m.get(seq)
	if !ok {
		return v, fmt.Errorf("version %d: %w", seq, ErrNotFound)
	}
	return v, nil
}

// replace overwrites a version that is already in the log.
func (b *batch) replace(v *Version) error {
	if g := b.groups.groupOf(v.Seq); g != nil {
		return b.groups.alter(g, v.Seq, v)
	}
	return b.w.Set(keyVersion(v.Seq), encode(v))
}

// erase removes a version from the log.
func (b *batch) erase(v *Version) error {
	if g := b.groups.groupOf(v.Seq); g != nil {
		return b.groups.alter(g, v.Seq, nil)
	}
	for _, k := range append(keysOf(v), keyVersion(v.Seq)) {
		if err := b.w.Del(k); err != nil {
			return err
		}
	}
	return nil
}

// alter changes a version of a group, or drops it if v is nil. The group is written with the batch.
func (gs *batchGroups) alter(g *group, seq uint64, v *Version) error {
	m, err := gs.members(g)
	if err != nil {
		return err
	}
	if gs.altered[g.first] == nil {
		of := *g
		of.altered = true
		m = &members{group: &of, list: m.list, alt: maps.Clone(m.alt)}
		if m.alt == nil {
			m.alt = map[uint64]*Version{}
		}
		gs.altered[g.first] = m
	}
	if v != nil {
		own := *v
		v = &own
	}
	m.alt[seq] = v
	return nil
}

// allDropped reports whether all versions of the group were dropped.
func (m *members) allDropped() bool {
	if uint64(len(m.alt)) <= m.last-m.first {
		return false
	}
	for _, v := range m.alt {
		if v != nil {
			return false
		}
	}
	return true
}

// flush writes the altered groups, and removes groups whose versions were all dropped.
func (gs *batchGroups) flush() error {
	for _, m := range gs.altered {
		if !m.allDropped() {
			if err := gs.w.Set(keyGroup(m.first), m.record(m.alt)); err != nil {
				return err
			}
			continue
		}
		if err := removeGroup(gs.w.Del, m.group); err != nil {
			return err
		}
	}
	return nil
}

// removeGroup removes a group's keys, except those of its list.
func removeGroup(del func([]byte) error, g *group) error {
	common := g.common()
	for _, k := range append(indexes(&common), keyGroup(g.first)) {
		if err := del(k); err != nil {
			return err
		}
	}
	return nil
}

// publish makes the groups of a committed batch visible. It returns the lists that no group refers
// to any more.
func (gs *batchGroups) publish() (unused []uint64) {
	for number, l := range gs.lists {
		gs.stored.lists.Put(number, l)
	}
	for _, g := range gs.made {
		gs.stored.put(g)
	}
	for _, m := range gs.altered {
		if !m.allDropped() {
			gs.stored.put(m.group)
		} else if gs.stored.drop(m.group) == 0 {
			unused = append(unused, m.group.list)
			gs.upToDateLists.touch(m.group.to)
		}
	}
	return unused
}

// dropLists removes lists that no group refers to.
func (gs *groups) dropLists(d *db.DB, unused []uint64) error {
	if len(unused) == 0 {
		return nil
	}
	w := d.NewWriter()
	defer w.Close()
	for _, number := range unused {
		it := w.Snapshot().NewIterator(badger.IteratorOptions{Prefix: keyList(number, 0)[:9]})
		for it.Rewind(); it.Valid(); it.Next() {
			if err := w.Del(it.Item().KeyCopy(nil)); err != nil {
				it.Close()
				return err
			}
		}
		it.Close()
		gs.lists.Drop(number)
	}
	return w.Commit()
}

// removeGroupsAbove removes the groups and lists whose numbers are above seq; see removeAbove. A
// list may exist without its group, because it is written first. Such a list must go too, because a
// later list may get its number.
func (s *Store) removeGroupsAbove(seq uint64) error {
	var gone []*group
	var lists []uint64
	err := s.db.View(func(txn *badger.Txn) error {
		pieces := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{kList}})
		defer pieces.Close()
		for pieces.Seek(keyList(seq+1, 0)); pieces.Valid(); pieces.Next() {
			if key := pieces.Item().Key(); len(key) == len(keyList(0, 0)) {
				lists = append(lists, binary.BigEndian.Uint64(key[1:]))
			}
		}
		it := txn.NewIterator(badger.IteratorOptions{PrefetchValues: true, PrefetchSize: 100, Prefix: []byte{kGroup}})
		defer it.Close()
		for it.Seek(keyGroup(seq + 1)); it.Valid(); it.Next() {
			err := it.Item().Value(func(val []byte) error {
				g, _, err := parseGroup(it.Item().Key(), val)
				gone = append(gone, g)
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || len(gone)+len(lists) == 0 {
		return err
	}
	s.current.Clear()
	w := s.db.NewWriter()
	defer w.Close()
	for _, g := range gone {
		s.groups.drop(g)
	}
	for _, g := range gone {
		m, err := s.groups.members(w.Snapshot(), g)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		if err == nil {
			if err := m.each(func(v Version) error { return s.restoreCurrent(w, v.Path, seq) }); err != nil {
				return err
			}
		}
		if err := removeGroup(w.Del, g); err != nil {
			return err
		}
	}
	if err := w.Commit(); err != nil {
		return err
	}
	return s.groups.dropLists(s.db, slices.Compact(lists))
}

func newUpToDateLists() upToDateLists { return upToDateLists{map[Path]*group{}, map[Path]bool{}} }
