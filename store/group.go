package store

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"cachebro/store/db"
	"cachebro/store/leaf/cache"

	badger "github.com/dgraph-io/badger/v4"
)

// The rename of a directory makes two versions for each path in its subtree, one for the old name
// and one for the new. These versions have numbers, but they are not stored one by one. They form a
// group. The group's one record (a d key) refers to a list of the paths (D keys). While nothing in
// the subtree changes, later renames of the directory refer to the same list. So 1,000 renames of a
// directory of 400 files make 1,000 small records instead of 800,000 versions with three keys each.
// The newest versions of the paths (c keys) are written once for each batch.

// minGroup is the smallest number of paths for which a group is made. Only tests change it.
var minGroup = 8

const (
	// maxGroup limits the length of a list, because a list is read as a whole.
	maxGroup = 20_000
	// listPiece is the number of paths in one D record.
	listPiece = 500
	// listsKept limits the number of paths in cached lists.
	listsKept = 4 * maxGroup
	// maxUpToDateLists limits the directories whose lists are known to be up to date.
	maxUpToDateLists = 16
)

// group represents the versions that the rename of a directory made in its subtree. It is
// immutable.
type group struct {
	first, last uint64 // numbers of its versions
	from, to    Path   // of the directory
	list        uint64 // the list's number, which is the first version number of the group that it was made for
	prev        uint64 // first number of the previous group with the same list; 0: this is the first one
	time        int64
	actor       *Actor
	plan        string
	idle        bool
	altered     bool // some of its versions were changed or dropped; the record lists them
}

// groupRecord is the value of a d key. The key holds the group's first number.
type groupRecord struct {
	Last    uint64    `cbor:"1,keyasint"`
	From    Path      `cbor:"2,keyasint,omitempty"`
	To      Path      `cbor:"3,keyasint,omitempty"`
	List    uint64    `cbor:"4,keyasint,omitempty"`
	Prev    uint64    `cbor:"5,keyasint,omitempty"`
	Common  Version   `cbor:"6,keyasint"` // time, author, plan
	Altered []altered `cbor:"7,keyasint,omitempty"`
}

// altered is a version of a group that was changed or dropped. Version is the new record, or empty
// if the version was dropped.
type altered struct {
	_       struct{} `cbor:",toarray"`
	Seq     uint64
	Version []byte
}

func keyGroup(first uint64) []byte { return binary.BigEndian.AppendUint64([]byte{kGroup}, first) }

func keyList(list uint64, piece int) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64([]byte{kList}, list), uint32(piece))
}

func (g *group) record(alt map[uint64]*Version) []byte {
	r := groupRecord{Last: g.last, From: g.from, To: g.to, List: g.list, Prev: g.prev, Common: g.common()}
	for _, seq := range slices.Sorted(maps.Keys(alt)) {
		a := altered{Seq: seq}
		if alt[seq] != nil {
			a.Version = encode(alt[seq])
		}
		r.Altered = append(r.Altered, a)
	}
	return encode(&r)
}

// common returns the fields that all versions of the group share.
func (g *group) common() Version {
	return Version{Seq: g.first, Time: g.time, Actor: *g.actor, Plan: g.plan, Idle: g.idle}
}

// parseGroup reads a d record.
func parseGroup(key, val []byte) (*group, map[uint64]*Version, error) {
	var r groupRecord
	if len(key) != 9 {
		return nil, nil, fmt.Errorf("%w: group key of %d bytes", ErrDamaged, len(key))
	}
	if err := decode(val, &r); err != nil {
		return nil, nil, err
	}
	g := &group{
		first: binary.BigEndian.Uint64(key[1:]), last: r.Last, from: r.From, to: r.To, list: r.List, prev: r.Prev,
		time: r.Common.Time, actor: &r.Common.Actor, plan: r.Common.Plan, idle: r.Common.Idle, altered: len(r.Altered) > 0,
	}
	if g.last < g.first || g.last-g.first >= 2*maxGroup {
		return nil, nil, fmt.Errorf("%w: group %d", ErrDamaged, g.first)
	}
	alt := map[uint64]*Version{}
	for _, a := range r.Altered {
		alt[a.Seq] = nil
		if len(a.Version) > 0 {
			v, err := versionIn(a.Version)
			if err != nil {
				return nil, nil, err
			}
			v.Seq = a.Seq
			alt[a.Seq] = &v
		}
	}
	return g, alt, nil
}

// list holds the versions that the paths in a directory had before its rename. Their paths are
// relative to the directory. It is immutable.
type list struct {
	was []Version
	at  map[Path]int // index in was, by path
}

func newList(was []Version) *list {
	l := &list{was: was, at: make(map[Path]int, len(was))}
	for i := range was {
		l.at[was[i].Path] = i
	}
	return l
}

// version returns the version with the number seq, as the rename made it.
func (g *group) version(l *list, seq uint64) Version {
	i := int(seq-g.first) / 2
	was := &l.was[i]
	v := g.common()
	v.Seq, v.Prev = seq, was.Prev
	v.Class, v.Stat = was.Class, was.Stat
	if g.prev != 0 {
		v.Prev = g.prev + uint64(2*i) + 1
	}
	from, to := below(g.from)+was.Path, below(g.to)+was.Path
	if (seq-g.first)%2 == 0 {
		v.Op = OpMoved
		v.Path, v.To = from, to
		return v
	}
	v.Op = OpRename
	v.Path, v.From = to, from
	v.inheritContent(*was)
	return v
}

// seqOf returns the number of the group's version of a path; 0 if it has none.
func (g *group) seqOf(l *list, p Path) uint64 {
	root, side := g.from, uint64(0)
	if !p.Inside(root) {
		root, side = g.to, 1
	}
	if len(p) <= len(root) || !p.Inside(root) {
		return 0
	}
	i, ok := l.at[p[len(below(root)):]]
	if !ok {
		return 0
	}
	return g.first + uint64(2*i) + side
}

// members is a group with the data from which its versions are made.
type members struct {
	*group
	list *list
	alt  map[uint64]*Version
}

// get returns the version with the number seq, or false if it was dropped.
func (m *members) get(seq uint64) (Version, bool) {
	if m.altered {
		if v, ok := m.alt[seq]; ok {
			if v == nil {
				return Version{}, false
			}
			return *v, true
		}
	}
	return m.version(m.list, seq), true
}

// each calls fn with the versions of the group, oldest first, until fn returns an error.
func (m *members) each(fn func(Version) error) error {
	for seq := m.first; seq <= m.last; seq++ {
		if v, ok := m.get(seq); ok {
			if err := fn(v); err != nil {
				return err
			}
		}
	}
	return nil
}

// members reads the members of a group. It returns ErrNotFound if the group has been dropped.
func (gs *groups) members(txn *badger.Txn, g *group) (*members, error) {
	m := &members{group: g}
	var err error
	if g.altered {
		item, err := txn.Get(keyGroup(g.first))
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil, fmt.Errorf("group %d: %w", g.first, ErrNotFound)
		}
		if err != nil {
			return nil, damaged(err)
		}
		err = item.Value(func(val []byte) (err error) { _, m.alt, err = parseGroup(keyGroup(g.first), val); return })
		if err != nil {
			return nil, damaged(err)
		}
	}
	m.list, err = gs.listIn(txn, g.list)
	if err == nil && g.last-g.first+1 != uint64(2*len(m.list.was)) {
		err = fmt.Errorf("%w: list %d", ErrDamaged, g.list)
	}
	return m, err
}

// listIn returns a list. It returns ErrNotFound if the list has been dropped.
func (gs *groups) listIn(txn *badger.Txn, number uint64) (*list, error) {
	if l, ok := gs.lists.Get(number); ok {
		return l, nil
	}
	var was []Version
	prefix := keyList(number, 0)[:9]
	it := txn.NewIterator(badger.IteratorOptions{Prefix: prefix})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		err := it.Item().Value(func(val []byte) error {
			for len(val) > 0 {
				n, size := binary.Uvarint(val)
				if size <= 0 || n > uint64(len(val)-size) {
					return fmt.Errorf("%w: list %d", ErrDamaged, number)
				}
				v, err := versionIn(val[size : size+int(n)])
				if err != nil {
					return err
				}
				was, val = append(was, v), val[size+int(n):]
			}
			return nil
		})
		if err != nil {
			return nil, damaged(err)
		}
	}
	if len(was) == 0 {
		return nil, fmt.Errorf("list %d: %w", number, ErrNotFound)
	}
	l := newList(was)
	gs.lists.Put(number, l)
	return l, nil
}

// groups holds all groups of a store.
type groups struct {
	lists *cache.Cache[uint64, *list]

	// mu guards the fields below. No other lock is taken while it is held.
	mu    sync.RWMutex
	all   []*group          // by number
	below map[Path][]*group // by the old and the new path of the directory, in order
	uses  map[uint64]int    // number of groups that refer to a list

	versions uint64 // number of versions of all groups
}

func newGroups() *groups {
	return &groups{lists: cache.New[uint64](listsKept, func(l *list) int { return len(l.was) }), below: map[Path][]*group{}, uses: map[uint64]int{}}
}

func byFirst(g *group, first uint64) int { return cmp.Compare(g.first, first) }

// put adds a group, or replaces the one with the same number.
func (gs *groups) put(g *group) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	i, known := slices.BinarySearchFunc(gs.all, g.first, byFirst)
	if !known {
		gs.uses[g.list]++
		gs.versions += g.last - g.first + 1
		if i > 0 { // groups of one author share the Actor
			if was := gs.all[i-1]; *was.actor == *g.actor {
				g.actor = was.actor
			}
		}
	}
	gs.all = placed(gs.all, g)
	gs.below[g.from] = placed(gs.below[g.from], g)
	gs.below[g.to] = placed(gs.below[g.to], g)
}

// placed returns all with g inserted in order, or with g instead of the group with the same number.
// Readers that hold the old slice see no change.
func placed(all []*group, g *group) []*group {
	i, known := slices.BinarySearchFunc(all, g.first, byFirst)
	switch {
	case known:
		all = slices.Clone(all)
		all[i] = g
		return all
	case i == len(all):
		return append(all, g)
	}
	return slices.Insert(slices.Clone(all), i, g)
}

// drop removes a group and returns the number of groups that still refer to its list.
func (gs *groups) drop(g *group) int {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	without := func(all []*group) []*group {
		return slices.DeleteFunc(slices.Clone(all), func(o *group) bool { return o.first == g.first })
	}
	was := len(gs.all)
	gs.all = without(gs.all)
	for _, p := range []Path{g.from, g.to} {
		gs.below[p] = without(gs.below[p])
		if len(gs.below[p]) == 0 {
			delete(gs.below, p)
		}
	}
	if len(gs.all) < was {
		gs.uses[g.list]--
		gs.versions -= g.last - g.first + 1
	}
	left := gs.uses[g.list]
	if left == 0 {
		delete(gs.uses, g.list)
	}
	return left
}

// ahead returns the group that contains a number. If there is none, it returns the nearest group
// below the number if down is set, or else above it. It returns nil if that does not exist either.
func (gs *groups) ahead(seq uint64, down bool) *group {
	gs.mu.RLock()
	defer gs.mu.RUnlock()
	i, exact := slices.BinarySearchFunc(gs.all, seq, byFirst)
	if !exact && i > 0 && (down || gs.all[i-1].last >= seq) {
		i--
	} else if !exact && down {
		return nil
	}
	if i == len(gs.all) {
		return nil
	}
	return gs.all[i]
}

// covering returns the group that contains a number, or nil.
func (gs *groups) covering(seq uint64) *group {
	g := gs.ahead(seq, true)
	if g == nil || g.last < seq {
		return nil
	}
	return g
}

// containing returns the groups that may have a version of a path, in order. The caller must not
// change the slice.
func (gs *groups) containing(p Path) (found []*group) {
	gs.mu.RLock()
	defer gs.mu.RUnlock()
	if len(gs.all) == 0 {
		return nil
	}
	several := false
	for p != "" {
		p = p.Dir()
		at := gs.below[p]
		switch {
		case len(at) == 0:
		case found == nil:
			found = at
		default:
			found, several = append(slices.Clone(found), at...), true
		}
	}
	if several {
		slices.SortFunc(found, func(a, b *group) int { return cmp.Compare(a.first, b.first) })
		found = slices.Compact(found)
	}
	return found
}

// count returns the number of groups and of their versions, dropped ones included.
func (gs *groups) count() (groups, versions uint64) {
	gs.mu.RLock()
	defer gs.mu.RUnlock()
	return uint64(len(gs.all)), gs.versions
}

// upTo returns all groups that begin at or before seq, in order.
func (gs *groups) upTo(seq uint64) []*group {
	gs.mu.RLock()
	defer gs.mu.RUnlock()
	i, _ := slices.BinarySearchFunc(gs.all, seq+1, byFirst)
	return gs.all[:i:i]
}

// load reads the d keys.
func (gs *groups) load(d *db.DB) error {
	found := newGroups()
	err := d.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{PrefetchValues: true, PrefetchSize: 64, Prefix: []byte{kGroup}})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			err := it.Item().Value(func(val []byte) error {
				g, _, err := parseGroup(it.Item().Key(), val)
				if err == nil {
					found.put(g)
				}
				return err
			})
			if err != nil && !errors.Is(err, ErrDamaged) { // fsck reports it
				return damaged(err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	gs.mu.Lock()
	defer gs.mu.Unlock()
	gs.all, gs.below = found.all, found.below
	gs.uses, gs.versions = found.uses, found.versions
	gs.lists.Clear()
	return nil
}

// cursor walks through the log version by version, whether they are stored as records or as groups.
type cursor struct {
	v           *View
	it          *badger.Iterator
	down        bool
	recordsOnly bool     // skip groups
	ahead       *group   // the next group in the cursor's direction
	in          *members // the present group; nil if the present version has a record
	at          uint64   // number of the version in the group
	err         error    // why the walk ended early
}

func (v *View) cursor(down bool, prefetch int) *cursor {
	return &cursor{v: v, down: down, it: v.txn.NewIterator(badger.IteratorOptions{
		Reverse: down, PrefetchValues: prefetch > 0, PrefetchSize: prefetch, Prefix: []byte{kVersion}})}
}

// seek moves to the version with this number, or to the next one in the cursor's direction.
func (c *cursor) seek(seq uint64) {
	c.in = nil
	c.it.Seek(keyVersion(seq))
	if !c.recordsOnly {
		c.ahead = c.v.s.groups.ahead(seq, c.down)
	}
	c.enterGroup(seq)
}

// enterGroup moves to the next version of a group if that comes before the next record. seq is the
// number given to seek.
func (c *cursor) enterGroup(seq uint64) {
	for c.ahead != nil && c.err == nil {
		g := c.ahead
		if c.it.Valid() {
			on := binary.BigEndian.Uint64(c.it.Item().Key()[1:])
			if c.down && on > g.last || !c.down && on < g.first {
				return
			}
		}
		if c.down {
			c.at = min(seq, g.last)
			c.ahead = c.v.s.groups.ahead(g.first-1, true)
		} else {
			c.at = max(seq, g.first)
			c.ahead = c.v.s.groups.ahead(g.last+1, false)
		}
		c.in, c.err = c.v.s.groups.members(c.v.txn, g)
		if errors.Is(c.err, ErrNotFound) { // dropped meanwhile
			c.in, c.err = nil, nil
			continue
		}
		if c.err != nil || c.present() {
			return
		}
	}
}

// present moves on to the next version of the group that was not dropped. It returns false at the
// end of the group.
func (c *cursor) present() bool {
	for c.in.first <= c.at && c.at <= c.in.last {
		if _, ok := c.in.get(c.at); ok {
			return true
		}
		c.step()
	}
	c.in = nil
	return false
}

func (c *cursor) step() {
	if c.down {
		c.at--
	} else {
		c.at++
	}
}

func (c *cursor) valid() bool { return c.err == nil && (c.in != nil || c.it.Valid()) }

func (c *cursor) seq() uint64 {
	if c.in != nil {
		return c.at
	}
	return binary.BigEndian.Uint64(c.it.Item().Key()[1:])
}

func (c *cursor) next() {
	at := c.seq()
	if c.in != nil {
		c.step()
		if c.present() {
			return
		}
	} else {
		c.it.Next()
	}
	if c.down {
		c.enterGroup(at - 1)
	} else {
		c.enterGroup(at + 1)
	}
}

// read returns the cursor's present version. passed is true if over excludes the version.
func (c *cursor) read(over pass) (o Version, passed bool) {
	if c.in != nil {
		o, _ = c.in.get(c.at)
		return o, !o.Path.Inside(over.within)
	}
	c.err = c.it.Item().Value(func(val []byte) (err error) {
		p, op, _, ok := skim(val)
		passed = ok && (!Path(p).Inside(over.within) || over.baselines && op == OpBaseline)
		if passed {
			return nil
		}
		o, err = decodeVersion(c.it.Item().Key(), val)
		return err
	})
	return o, passed
}

// pathWalk walks through the versions of one path, newest first. It reads only the versions that it
// returns, because a temporary name that is used for every save has thousands of versions.
type pathWalk struct {
	v      *View
	path   Path
	most   uint64
	it     *badger.Iterator
	groups []*group // not visited yet
}

// backwards begins a walk at number most.
func (v *View) backwards(p Path, most uint64) *pathWalk {
	w := &pathWalk{v: v, path: p, most: min(most, v.seq), groups: v.s.groups.containing(p)}
	w.it = v.txn.NewIterator(badger.IteratorOptions{Reverse: true, Prefix: keyPathPrefix(p)})
	w.it.Seek(keyPath(p, w.most))
	return w
}

func (w *pathWalk) close() { w.it.Close() }

// next returns the next version, or the zero Version after the oldest one.
func (w *pathWalk) next() (Version, error) {
	for {
		nextRecord := uint64(0) // number of the next version with a record
		if w.it.Valid() {
			_, nextRecord, _ = parsePathKey(w.it.Item().Key())
		}
		for len(w.groups) > 0 && w.groups[len(w.groups)-1].first > nextRecord {
			g := w.groups[len(w.groups)-1]
			w.groups = w.groups[:len(w.groups)-1]
			o, found, err := w.v.inGroup(g, w.path, w.most)
			if err != nil || found {
				return o, err
			}
		}
		if !w.it.Valid() {
			return Version{}, nil
		}
		w.it.Next()
		if nextRecord == 0 {
			continue
		}
		o, err := w.v.Version(nextRecord)
		if !errors.Is(err, ErrNotFound) {
			return o, err
		}
	}
}

// eachIn calls fn with the versions of a group, oldest first, until fn returns an error. It does
// nothing if the group has been dropped.
func (gs *groups) eachIn(txn *badger.Txn, g *group, fn func(Version) error) error {
	m, err := gs.members(txn, g)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return m.each(fn)
}

// inGroup returns the group's version of a path, if its number is not above most.
func (v *View) inGroup(g *group, p Path, most uint64) (o Version, found bool, err error) {
	if g.first > most {
		return o, false, nil
	}
	m, err := v.s.groups.members(v.txn, g)
	if errors.Is(err, ErrNotFound) {
		return o, false, nil
	}
	if err != nil {
		return o, false, err
	}
	seq := g.seqOf(m.list, p)
	if seq == 0 || seq > most {
		return o, false, nil
	}
	o, found = m.get(seq)
	return o, found, nil
}

// newest returns the newest version of a path up to seq.
func (v *View) newest(p Path, seq uint64) (o Version, found bool, err error) {
	w := v.backwards(p, seq)
	defer w.close()
	o, err = w.next()
	return o, err == nil && o.Seq != 0, err
}
