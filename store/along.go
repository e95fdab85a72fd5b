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

// tips records which lists are still up to date. It is guarded by writeMu. Each batch has its own
// copy.
type tips struct {
	unchanged map[Path]*group    // directories whose subtree has not changed since the group was made
	vacated   map[Path]bool      // old paths of groups where nothing was created since
	saved     map[Inode]*members // files to whose names nothing has happened since the save; without lists
}

func (t tips) clone() tips {
	return tips{maps.Clone(t.unchanged), maps.Clone(t.vacated), maps.Clone(t.saved)}
}

// touch drops the entries of a path and of its parent directories.
func (t tips) touch(p Path) {
	if len(t.unchanged)+len(t.vacated) == 0 {
		return
	}
	for {
		delete(t.unchanged, p)
		delete(t.vacated, p)
		if p == "" {
			return
		}
		p = parentOf(p)
	}
}

// forget drops the entry of a file.
func (t tips) forget(st Stat) { delete(t.saved, InodeOf(st)) }

// touchBelow drops the entries of a path and its subtree.
func (t tips) touchBelow(p Path) {
	maps.DeleteFunc(t.unchanged, func(o Path, _ *group) bool { return o.Inside(p) })
	maps.DeleteFunc(t.vacated, func(o Path, _ bool) bool { return o.Inside(p) })
}

// savedAs records that a group saved a file.
func (t tips) savedAs(m *members) {
	if len(t.saved) >= tipsMost {
		clear(t.saved)
	}
	t.saved[InodeOf(m.common.Stat)] = &members{group: m.group, common: m.common}
}

// moved records that a group moved a directory.
func (t tips) moved(g *group) {
	if len(t.unchanged) >= tipsMost || len(t.vacated) >= tipsMost {
		clear(t.unchanged)
		clear(t.vacated)
	}
	t.touchBelow(g.from)
	t.touchBelow(g.to)
	t.unchanged[g.to], t.vacated[g.from] = g, true
}

// batchGroups holds the groups that a batch makes and alters.
type batchGroups struct {
	w       *db.Writer
	stored  *groups
	tips    tips
	made    []*group // in order
	lists   map[uint64]*list
	due     map[Path]*group // paths whose newest versions are not in batch.cur yet, with the last group that moved them
	edits   map[workingKey]*edits
	altered map[uint64]*members // groups to write again, by first number
	read    map[*group]*members // groups whose records were read
	names   int                 // see groups.names; with the lists of this batch
}

// edits counts how often a session moved the files of a directory.
type edits struct {
	n    int
	last *group
}

func (gs *groups) newBatch(w *db.Writer, t tips) batchGroups {
	gs.mu.RLock()
	defer gs.mu.RUnlock()
	return batchGroups{
		w: w, stored: gs, tips: t.clone(), lists: map[uint64]*list{}, due: map[Path]*group{}, edits: map[workingKey]*edits{},
		altered: map[uint64]*members{}, read: map[*group]*members{}, names: gs.names,
	}
}

// group makes a group for the subtree of a renamed directory. tip is the group whose list is still
// up to date, or nil. group returns false if it made none. Each path then needs versions of its
// own.
func (b *batch) group(c *Change, tip *group, kids []Path) (bool, error) {
	if c.Path.Inside(c.Path2) || c.Path2.Inside(c.Path) {
		return false, nil
	}
	if tip != nil {
		return true, b.addMove(c, tip.list, tip.first)
	}
	if len(kids) < groupLeast || len(kids) > groupMost {
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
		if v.Stat.Nlink > 1 && v.Stat.Ino != 0 && !isDir(v.Stat) { // place notes its names
			return false, nil
		}
		was = append(was, Version{
			Path: kid[len(below(c.Path)):], Class: v.Class, Target: v.Target, Blob: v.Blob, NoContent: v.NoContent, Stat: v.Stat,
			Prev: v.Seq, Foreign: v.Foreign,
		})
	}
	if len(was) < groupLeast {
		return false, nil
	}
	for i := range was {
		if err := b.settle(b.cur[below(c.Path)+was[i].Path]); err != nil {
			return false, err
		}
	}
	number, err := b.newList(was)
	if err != nil {
		return false, err
	}
	return true, b.addMove(c, number, 0)
}

// newList writes a list for the next group, and returns its number.
func (b *batch) newList(was []Version) (uint64, error) {
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
			return 0, err
		}
		part = part[n:]
	}
	b.groups.lists[number] = newList(was)
	return number, nil
}

// addGroup writes a group that refers to a list. It sets the numbers of the group. common holds the
// fields that its versions share.
func (b *batch) addGroup(g *group, common Version) (*members, error) {
	l, err := b.groups.list(g.list)
	if err != nil {
		return nil, err
	}
	g.first, g.last = b.next.Seq+1, b.next.Seq+g.perPath()*uint64(len(l.was))
	actor := common.Actor
	g.time, g.actor, g.plan, g.idle = common.Time, &actor, common.Plan, common.Idle
	m := &members{group: g, list: l, common: common}
	b.groups.read[g] = m
	if err := b.w.Set(keyGroup(g.first), m.record()); err != nil {
		return nil, fmt.Errorf("write versions: %w", err)
	}
	origin := g.origin()
	for _, ix := range indexes(&origin) {
		if err := b.w.Set(ix, nil); err != nil {
			return nil, fmt.Errorf("write versions: %w", err)
		}
	}
	for blk := g.first / timeBlock; blk <= g.last/timeBlock; blk++ {
		b.inBlock(blk, &origin)
	}
	b.next.Seq = g.last
	b.next.Versions += g.last - g.first + 1
	b.groups.made = append(b.groups.made, g)
	return m, nil
}

// addMove makes a group for the rename of a directory.
func (b *batch) addMove(c *Change, number, prev uint64) error {
	g := &group{from: c.Path, to: c.Path2, list: number, prev: prev}
	if _, err := b.addGroup(g, Version{Time: c.Time, Actor: c.Actor, Plan: c.Plan, Idle: c.Idle}); err != nil {
		return err
	}
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
	b.groups.tips.moved(g)
	return nil
}

// addForNames adds v, a version that was made under one name of a file, for each name of the file,
// in the order of the names. repeat turns a copy of v into the version of another name whose newest
// version is cur. It returns false if that name needs none.
func (b *batch) addForNames(v Version, repeat func(o *Version, cur Version) bool) error {
	if tip := b.groups.tips.saved[InodeOf(v.Stat)]; tip != nil {
		l, err := b.groups.list(tip.group.list)
		if err != nil {
			return err
		}
		o := v
		i, known := l.at[v.Path]
		if known && l.was[i].Class == v.Class && repeat(&o, tip.common) && o == v {
			_, err := b.addSave(v, tip.group.list, tip.first)
			return err
		}
	}
	names, err := b.names(v.Stat, v.Path)
	if err != nil {
		return err
	}
	names = append(names, v.Path)
	slices.Sort(names)
	made, was := make([]Version, 0, len(names)), make([]Version, 0, len(names))
	alike, all := true, true
	for _, p := range names {
		cur, live, err := b.live(p)
		if err != nil {
			return err
		}
		same := live && InodeOf(cur.Stat) == InodeOf(v.Stat)
		o := v
		if p != v.Path {
			if !same {
				continue
			}
			if !repeat(&o, cur) {
				all = false
				continue
			}
		}
		alike = alike && same && cur.hasNames() && o == v
		o.Path = p
		if p != v.Path {
			o.Class = cur.Class
		}
		alike = alike && o.Class == cur.Class
		made, was = append(made, o), append(was, Version{Path: p, Class: cur.Class, Prev: cur.Seq})
	}
	if alike && len(made) >= groupLeast && len(made) <= groupMost && b.groups.names+len(made) <= listedMost {
		return b.groupSave(v, was, all)
	}
	for _, o := range made {
		o, err := b.append(o)
		if err != nil {
			return err
		}
		if o.Path == v.Path {
			b.edited(o, 1)
		}
	}
	return nil
}

// groupSave makes a group with a new list. all tells whether the list has all names of the file.
func (b *batch) groupSave(v Version, was []Version, all bool) error {
	for i := range was {
		if err := b.settle(b.cur[was[i].Path]); err != nil {
			return err
		}
	}
	if err := b.name(v.Stat, v.Path); err != nil {
		return err
	}
	number, err := b.newList(was)
	if err != nil {
		return err
	}
	b.groups.names += len(was)
	m, err := b.addSave(v, number, 0)
	if err != nil {
		return err
	}
	if !all {
		b.groups.tips.forget(v.Stat)
	}
	for seq := m.first; seq <= m.last; seq++ {
		o := m.made(seq)
		b.groups.tips.touch(o.Path)
		if _, changed := b.dirty[o.Path]; changed {
			b.cur[o.Path], b.dirty[o.Path] = o, unencoded
		}
	}
	return nil
}

// addSave makes a group for the names in a list. v is the version of the name under which the file
// was changed.
func (b *batch) addSave(v Version, number, prev uint64) (*members, error) {
	m, err := b.addGroup(&group{list: number, prev: prev}, commonOf(v))
	if err != nil {
		return nil, err
	}
	b.contents.Refer(v.Blob)
	own := m.made(m.seqOf(m.list, v.Path))
	b.made = append(b.made, own)
	b.edited(own, 1)
	b.groups.tips.savedAs(m)
	return m, nil
}

// commonOf returns the fields of a save that all its versions share.
func commonOf(v Version) Version {
	v.Seq, v.Path, v.Class, v.Prev = 0, "", 0, 0
	return v
}

// latest returns the newest version of the path of v. v is the newest version but for saves of a
// file with several names.
func (b *batch) latest(v Version) (Version, error) {
	if !v.hasNames() {
		return v, nil
	}
	for _, all := range [...][]*group{b.groups.made, b.groups.stored.containing(v.Path)} {
		for _, g := range slices.Backward(all) {
			if g.first <= v.Seq {
				break
			}
			if !g.isSave() {
				continue
			}
			m, err := b.groups.members(g)
			if err != nil {
				return v, err
			}
			if seq := g.seqOf(m.list, v.Path); seq != 0 {
				if o, ok := m.get(seq); ok {
					return o, nil
				}
			}
		}
	}
	return v, nil
}

// vacant reports whether nothing exists in a path's subtree. It returns false if it cannot know
// that without looking at each path.
func (b *batch) vacant(p Path) (bool, error) {
	if b.groups.tips.vacated[p] {
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
		p = parentOf(p)
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
		m, err := b.groups.members(g)
		if err != nil {
			return err
		}
		seq := g.first
		if root == g.to {
			seq++
		}
		for ; seq <= g.last; seq += 2 {
			v := m.made(seq)
			b.cur[v.Path], b.dirty[v.Path] = v, unencoded
		}
	}
	for _, e := range counts {
		m, err := b.groups.members(e.last)
		if err != nil {
			return err
		}
		for seq := m.first + 1; seq <= m.last; seq += 2 {
			b.edited(m.made(seq), e.n)
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
	if m := gs.read[g]; m != nil {
		return m, nil
	}
	m, err := gs.stored.members(gs.w.Txn, g)
	if err == nil {
		gs.read[g] = m
	}
	return m, err
}

// version returns a version of the log, even if this batch made it. It returns ErrNotFound if there
// is none.
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

// replace writes a version that the log already has.
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
		m = &members{group: &of, list: m.list, common: m.common, alt: maps.Clone(m.alt)}
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

// gone reports whether all versions of the group were dropped.
func (m *members) gone() bool {
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

// restate makes what most versions of a save have the group's common fields. So a new link count of
// all names takes no more room than the save.
func (m *members) restate() {
	if !m.isSave() || uint64(2*len(m.alt)) <= m.last-m.first+1 {
		return
	}
	var most *Version
	for seq := m.first; seq <= m.last && most == nil; seq++ {
		most = m.alt[seq]
	}
	if most == nil {
		return // they were dropped
	}
	as := &members{group: m.group, list: m.list, common: commonOf(*most), alt: map[uint64]*Version{}}
	for seq := m.first; seq <= m.last; seq++ {
		if v, ok := m.get(seq); !ok {
			as.alt[seq] = nil
		} else if v != as.made(seq) {
			as.alt[seq] = &v
		}
	}
	if len(as.alt) < len(m.alt) {
		m.common, m.alt = as.common, as.alt
	}
}

// flush writes the altered groups, and removes groups whose versions were all dropped.
func (gs *batchGroups) flush() error {
	for _, m := range gs.altered {
		if !m.gone() {
			m.restate()
			if err := gs.w.Set(keyGroup(m.first), m.record()); err != nil {
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
	origin := g.origin()
	for _, k := range append(indexes(&origin), keyGroup(g.first)) {
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
		gs.stored.put(gs.read[g])
	}
	for _, m := range gs.altered {
		if !m.gone() {
			gs.stored.put(m)
		} else if gs.stored.drop(m.group, m.list) == 0 {
			unused = append(unused, m.group.list)
			gs.tips.touch(m.group.to)
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

// removeGroupsAbove removes the groups whose numbers are above seq; see removeAbove.
func (s *Store) removeGroupsAbove(seq uint64) error {
	var gone []*members
	err := s.db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{PrefetchValues: true, PrefetchSize: 100, Prefix: []byte{kGroup}})
		defer it.Close()
		for it.Seek(keyGroup(seq + 1)); it.Valid(); it.Next() {
			err := it.Item().Value(func(val []byte) error {
				m, err := parseGroup(it.Item().Key(), val)
				if err != nil {
					return err
				}
				m.list, err = s.groups.listIn(txn, m.group.list)
				gone = append(gone, m)
				if errors.Is(err, ErrNotFound) {
					return nil
				}
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || len(gone) == 0 {
		return err
	}
	s.current.Clear()
	w := s.db.NewWriter()
	defer w.Close()
	var unused []uint64
	for _, m := range gone {
		s.groups.drop(m.group, m.list)
	}
	for _, m := range gone {
		if m.list != nil {
			if err := m.each(func(v Version) error { return s.restoreCurrent(w, v.Path, seq) }); err != nil {
				return err
			}
		}
		if m.group.list > seq {
			unused = append(unused, m.group.list)
		}
		if err := removeGroup(w.Del, m.group); err != nil {
			return err
		}
	}
	if err := w.Commit(); err != nil {
		return err
	}
	return s.groups.dropLists(s.db, unused)
}

func newTips() tips { return tips{map[Path]*group{}, map[Path]bool{}, map[Inode]*members{}} }
