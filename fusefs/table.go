//go:build linux || darwin

package fusefs

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"cachebro/fusefs/sys"

	"golang.org/x/sys/unix"
)

// shards is the number of parts of the inode and handle tables, so that two requests seldom need
// the same lock.
const shards = 64

// key identifies an inode of the source. Without the birth time, a new file could get the cached
// pages of a deleted one, because ext4 reuses inode numbers at once.
type key struct {
	dev, ino uint64
	birth    int64
}

// table finds inodes by key and by node id. It counts the kernel's references, and drops an inode
// at its last FORGET.
type table struct {
	nextID *atomic.Uint64 // in the ledger, if there is one
	ledger *ledger
	count  atomic.Int64
	byKey  [shards]struct {
		sync.Mutex
		// The mutex guards the fields below, and nlookup of inodes with keys in this shard.
		m       map[key]*inode
		resting slotIndex
		records records
	}
	byID [shards]struct {
		sync.RWMutex
		m       map[uint64]*inode
		resting slotIndex // by node id
	}
}

func newTable() *table {
	t := &table{nextID: new(atomic.Uint64)}
	for i := range t.byKey {
		t.byKey[i].m = make(map[key]*inode)
		t.byID[i].m = make(map[uint64]*inode)
	}
	return t
}

func keyShard(k key) uint64 { return (k.ino ^ k.ino>>7) % shards }

func (t *table) get(id uint64) *inode {
	n, k, rests := t.look(id)
	if rests {
		return t.wake(id, k)
	}
	return n
}

// look is like get, but it does not wake a resting file. It returns the inode, or the key of a
// resting file.
func (t *table) look(id uint64) (n *inode, k key, rests bool) {
	s := &t.byID[id%shards]
	s.RLock()
	defer s.RUnlock()
	n = s.m[id]
	if n == nil && s.resting.used > 0 {
		k, rests = t.restingKey(id)
	}
	return n, k, rests
}

// find returns the inode with a key, or nil. It counts no reference.
func (t *table) find(k key) *inode {
	s := &t.byKey[keyShard(k)]
	s.Lock()
	defer s.Unlock()
	if n := s.m[k]; n != nil {
		return n
	}
	return t.wakeLocked(k)
}

// ref returns the inode with key k and counts one reference. If there is no such inode, ref makes
// one with the function fresh, which must not block. isNew reports whether the inode is new to the
// kernel.
func (t *table) ref(k key, fresh func(id uint64) *inode) (n *inode, isNew bool) {
	s := &t.byKey[keyShard(k)]
	s.Lock()
	defer s.Unlock()
	n = s.m[k]
	if n == nil {
		n = t.wakeLocked(k)
	}
	if n != nil && n.nlookup > 0 {
		n.nlookup++
		t.ledger.lookups(n)
		return n, false
	}
	if n == nil {
		n = fresh(t.nextID.Add(1))
		s.m[k] = n
	}
	n.nlookup = 1
	t.ledger.add(n)
	i := &t.byID[n.id%shards]
	i.Lock()
	i.m[n.id] = n
	i.Unlock()
	t.count.Add(1)
	return n, true
}

// put registers an inode that an earlier server knew. No lock is needed, because nothing else uses
// the table yet.
func (t *table) put(n *inode, attached bool) {
	if attached {
		t.byKey[keyShard(n.key)].m[n.key] = n
	}
	t.byID[n.id%shards].m[n.id] = n
	t.count.Add(1)
}

// detach releases the key of n, so that another file can have it after n lost its last name. The
// node id stays valid until the kernel forgets it.
func (t *table) detach(n *inode) {
	s := &t.byKey[keyShard(n.key)]
	s.Lock()
	if s.m[n.key] == n {
		delete(s.m, n.key)
	}
	t.ledger.flag(n, nodeDetached, true)
	s.Unlock()
}

// forget drops count references of a node, and reports whether the last one is gone. A directory
// that contains a name of a file with several names stays in the table until the directory is
// removed. Otherwise it would become another inode when the kernel looks it up again, and the
// removal of such a name would not be noticed.
func (t *table) forget(id, count uint64) (n *inode, gone bool) {
	n, k, rests := t.look(id)
	if rests {
		if t.forgetResting(id, count, k) {
			return nil, false
		}
		n = t.get(id)
	}
	if n == nil {
		return nil, false
	}
	s := &t.byKey[keyShard(n.key)]
	s.Lock()
	defer s.Unlock()
	if n.nlookup > count {
		n.nlookup -= count
		t.ledger.lookups(n)
		return n, false
	}
	n.nlookup = 0
	if s.m[n.key] == n && !n.holdsNames.Load() {
		delete(s.m, n.key)
	}
	i := &t.byID[id%shards]
	i.Lock()
	delete(i.m, id)
	i.Unlock()
	t.count.Add(-1)
	t.ledger.forget(n)
	return n, true
}

// handles finds open files by the number of their handle.
type handles struct {
	next  *atomic.Uint64 // in the ledger, if there is one
	count atomic.Int64
	part  [shards]struct {
		sync.RWMutex
		m map[uint64]*handle
	}
}

func newHandles() *handles {
	t := &handles{next: new(atomic.Uint64)}
	for i := range t.part {
		t.part[i].m = make(map[uint64]*handle)
	}
	return t
}

// add gives h a number, which is never 0, and registers it.
func (t *handles) add(h *handle) {
	h.fh = t.next.Add(1)
	t.put(h)
}

func (t *handles) put(h *handle) {
	s := &t.part[h.fh%shards]
	s.Lock()
	s.m[h.fh] = h
	s.Unlock()
	t.count.Add(1)
}

func (t *handles) get(fh uint64) *handle {
	s := &t.part[fh%shards]
	s.RLock()
	h := s.m[fh]
	s.RUnlock()
	return h
}

func (t *handles) take(fh uint64) *handle {
	s := &t.part[fh%shards]
	s.Lock()
	h := s.m[fh]
	delete(s.m, fh)
	s.Unlock()
	if h != nil {
		t.count.Add(-1)
	}
	return h
}

// A file that the kernel has only looked up is "resting": instead of an inode it has a record of 24
// bytes and its entry in the ledger. Otherwise, one walk through a tree of a million files would
// leave a million unused inodes. The first request for a resting file wakes the file: it makes an
// inode, which stays until the kernel forgets the file. Without a ledger no file rests.
//
// Only a regular file with one name can rest, and only while no process can write to it without
// going through the mount. It was never opened, so the kernel caches no page of it.

// record holds the part of a resting file's state that the ledger does not. The file's nodeSlot
// contains the number of its record.
type record struct {
	parent       *inode
	mtime, ctime int64 // the file's times at the kernel's last lookup
}

const recordChunk = 256

// records holds the records of one shard of keys.
type records struct {
	chunks []*[recordChunk]record
	free   []uint32
}

func (r *records) at(i uint32) *record { return &r.chunks[i/recordChunk][i%recordChunk] }

func (r *records) take() uint32 {
	if len(r.free) == 0 {
		first := uint32(len(r.chunks) * recordChunk)
		r.chunks = append(r.chunks, new([recordChunk]record))
		if cap(r.free) < recordChunk {
			r.free = make([]uint32, 0, recordChunk)
		}
		for i := uint32(recordChunk); i > 0; i-- {
			r.free = append(r.free, first+i-1)
		}
	}
	i := r.free[len(r.free)-1]
	r.free = r.free[:len(r.free)-1]
	return i
}

// give frees record i. When no record is in use, it releases the memory.
func (r *records) give(i uint32) {
	*r.at(i) = record{}
	r.free = append(r.free, i)
	if len(r.free) == len(r.chunks)*recordChunk {
		*r = records{}
	}
}

// slotIndex finds slots of the ledger by hash, with open addressing. The lower 24 bits of a cell
// are the number of a slot (less than ledgerMax). The upper 8 bits are taken from the hash. So most
// mismatches are detected without access to the ledger.
type slotIndex struct {
	cells []uint32
	used  int
}

const (
	slotBits   = 24
	leastCells = 16
)

func mix(x uint64) uint64 {
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	return x ^ x>>32
}

func (k key) hash() uint64 { return mix(k.ino ^ mix(uint64(k.birth)^k.dev<<1)) }

func (x *slotIndex) home(hash uint64) int { return int(hash >> 32 * uint64(len(x.cells)) >> 32) }

func (x *slotIndex) after(i int) int {
	if i++; i == len(x.cells) {
		return 0
	}
	return i
}

// find returns the first slot with this hash for which matches returns true, or 0.
func (x *slotIndex) find(hash uint64, matches func(slot uint32) bool) uint32 {
	if x.used == 0 {
		return 0
	}
	for i := x.home(hash); x.cells[i] != 0; i = x.after(i) {
		if c := x.cells[i]; c>>slotBits == uint32(hash&0xff) {
			if slot := c & (1<<slotBits - 1); matches(slot) {
				return slot
			}
		}
	}
	return 0
}

func (x *slotIndex) add(slot uint32, hashOf func(slot uint32) uint64) {
	if (x.used+1)*5 > len(x.cells)*4 {
		old := x.cells
		x.cells = make([]uint32, max(leastCells, len(old)+len(old)/2))
		for _, c := range old {
			if c != 0 {
				x.set(c&(1<<slotBits-1), hashOf)
			}
		}
	}
	x.set(slot, hashOf)
	x.used++
}

func (x *slotIndex) set(slot uint32, hashOf func(slot uint32) uint64) {
	hash := hashOf(slot)
	i := x.home(hash)
	for x.cells[i] != 0 {
		i = x.after(i)
	}
	x.cells[i] = uint32(hash&0xff)<<slotBits | slot
}

// remove removes a slot, and moves later cells to the places where find looks for them.
func (x *slotIndex) remove(slot uint32, hashOf func(slot uint32) uint64) {
	if x.used--; x.used == 0 {
		*x = slotIndex{}
		return
	}
	i := x.home(hashOf(slot))
	for x.cells[i]&(1<<slotBits-1) != slot {
		i = x.after(i)
	}
	x.cells[i] = 0
	for j := x.after(i); x.cells[j] != 0; j = x.after(j) {
		// The cell at j may move to the gap at i unless the cell's home is between i and j.
		home := x.home(hashOf(x.cells[j] & (1<<slotBits - 1)))
		between := i < home && home <= j
		if i > j { // the cells from i to j wrap around the end
			between = home > i || home <= j
		}
		if between {
			continue
		}
		x.cells[i], x.cells[j] = x.cells[j], 0
		i = j
	}
}

func (l *ledger) node(slot uint32) *nodeSlot { return (*nodeSlot)(l.at(slot)) }

func (l *ledger) keyAt(slot uint32) key {
	s := l.node(slot)
	return key{s.dev, s.ino, s.birth}
}

func (l *ledger) keyHash(slot uint32) uint64 { return l.keyAt(slot).hash() }
func (l *ledger) idHash(slot uint32) uint64  { return mix(l.node(slot).id) }

func (l *ledger) slotNamed(ref uint32, name string) bool {
	at := int(ref)<<6 + linkHead
	n := int((*linkSlot)(l.at(ref)).size)
	return n == len(name) && unsafe.String(&l.mem[at], n) == name
}

// maxRestSize is the largest file that can rest: a nodeSlot has 32 bits for the size.
const maxRestSize = 1<<32 - 1

// rest counts one reference of the kernel to the file that sx describes, and returns the file's
// node id. It makes no inode. It returns 0 if the file has or needs an inode, or has changed.
func (o *namespace) rest(parent *inode, name string, sx *sys.Stat) uint64 {
	if o.ledger == nil || name == "" || o.outside.Load() {
		return 0
	}
	if !sx.IsRegular() || sx.Nlink != 1 || sx.Size > maxRestSize {
		return 0
	}
	return o.table.rest(keyOf(sx), parent, name, sx)
}

func (t *table) rest(k key, parent *inode, name string, sx *sys.Stat) uint64 {
	l := t.ledger
	s := &t.byKey[keyShard(k)]
	s.Lock()
	defer s.Unlock()
	if s.m[k] != nil {
		return 0
	}
	if slot := t.restingLocked(k); slot != 0 {
		n, r := l.node(slot), s.records.at(l.node(slot).record)
		changed := r.mtime != sx.Mtime || r.ctime != sx.Ctime || n.size != uint32(sx.Size)
		if changed || r.parent != parent || !l.slotNamed(n.link, name) {
			return 0
		}
		n.nlookup++
		return n.id
	}
	id := t.nextID.Add(1)
	slot := l.addResting(id, k, sx.Mode&unix.S_IFMT, parent, name)
	if slot == 0 {
		return 0
	}
	n := l.node(slot)
	n.size, n.record = uint32(sx.Size), s.records.take()
	*s.records.at(n.record) = record{parent: parent, mtime: sx.Mtime, ctime: sx.Ctime}
	s.resting.add(slot, l.keyHash)
	i := &t.byID[id%shards]
	i.Lock()
	i.resting.add(slot, l.idHash)
	i.Unlock()
	t.count.Add(1)
	return id
}

// restingLocked returns the slot of the resting file with key k, or 0. The caller has locked the
// key's shard.
func (t *table) restingLocked(k key) uint32 {
	return t.byKey[keyShard(k)].resting.find(k.hash(), func(slot uint32) bool { return t.ledger.keyAt(slot) == k })
}

// restingKey returns the key of a resting file. The caller has locked the id's shard, so that the
// slot does not change.
func (t *table) restingKey(id uint64) (k key, ok bool) {
	slot := t.byID[id%shards].resting.find(mix(id), func(slot uint32) bool { return t.ledger.node(slot).id == id })
	if slot == 0 {
		return key{}, false
	}
	return t.ledger.keyAt(slot), true
}

// unrestLocked removes a file from the tables of resting files. The caller has locked the two
// shards of the file, by key and by id.
func (t *table) unrestLocked(k key, slot uint32) {
	l := t.ledger
	s := &t.byKey[keyShard(k)]
	s.resting.remove(slot, l.keyHash)
	t.byID[l.node(slot).id%shards].resting.remove(slot, l.idHash)
	s.records.give(l.node(slot).record)
}

// wakeLocked makes an inode for the resting file with key k, or returns nil if no such file rests.
// The caller has locked the key's shard.
func (t *table) wakeLocked(k key) *inode {
	if t.ledger == nil {
		return nil
	}
	slot := t.restingLocked(k)
	if slot == 0 {
		return nil
	}
	l, s := t.ledger, &t.byKey[keyShard(k)]
	e := l.node(slot)
	r := s.records.at(e.record)
	n := &inode{fs: r.parent.fs, id: e.id, key: k, kind: e.mode, nlookup: e.nlookup}
	n.link = link{parent: r.parent, name: l.linkName(e.link), slot: e.link}
	n.kernelHas = kernelState{known: true, mtime: r.mtime, ctime: r.ctime, size: int64(e.size)}
	n.slot.Store(slot)
	i := &t.byID[n.id%shards]
	i.Lock()
	t.unrestLocked(k, slot)
	i.m[n.id] = n
	i.Unlock()
	s.m[k] = n
	return n
}

// wake returns the inode of a file that was resting, with this id and key, a moment ago.
func (t *table) wake(id uint64, k key) *inode {
	s := &t.byKey[keyShard(k)]
	s.Lock()
	n := s.m[k]
	if n == nil {
		n = t.wakeLocked(k)
	}
	s.Unlock()
	if n != nil && n.id == id {
		return n
	}
	// Since then, the file was woken and lost its last name, or the kernel forgot it.
	i := &t.byID[id%shards]
	i.RLock()
	defer i.RUnlock()
	return i.m[id]
}

// forgetResting does the work of forget for a file that was resting a moment ago. done is false if
// the file is not resting any more.
func (t *table) forgetResting(id, count uint64, k key) (done bool) {
	l, s := t.ledger, &t.byKey[keyShard(k)]
	s.Lock()
	defer s.Unlock()
	slot := t.restingLocked(k)
	if slot == 0 || l.node(slot).id != id {
		return false
	}
	e := l.node(slot)
	if e.nlookup > count {
		e.nlookup -= count
		return true
	}
	i := &t.byID[id%shards]
	i.Lock()
	t.unrestLocked(k, slot)
	i.Unlock()
	name := e.link
	l.drop(slot)
	l.drop(name)
	t.count.Add(-1)
	return true
}

// restingNames returns the resting files of one shard of ids.
func (t *table) restingNames(shard int) (all []restingName) {
	i := &t.byID[shard]
	i.RLock()
	defer i.RUnlock()
	for _, c := range i.resting.cells {
		if c == 0 {
			continue
		}
		e := t.ledger.node(c & (1<<slotBits - 1))
		l := (*linkSlot)(t.ledger.at(e.link))
		all = append(all, restingName{e.id, l.parent, t.ledger.linkName(e.link)})
	}
	return all
}

type restingName struct {
	id, parent uint64
	name       string
}
