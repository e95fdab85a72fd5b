//go:build linux || darwin

package fusefs

import (
	"sync"
	"sync/atomic"
)

// shards is the number of parts of the inode and handle tables, so that two requests seldom need
// the same lock.
const shards = 64

// key identifies an inode on the source. Without the birth time, a new file could get the cached
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

// get returns the inode with a node id, or nil.
func (t *table) get(id uint64) *inode {
	n, k, rests := t.look(id)
	if rests {
		return t.wake(id, k)
	}
	return n
}

// look is get without waking a resting file. It returns the inode, or the key of a resting file.
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

// ref returns the inode with key k and counts one reference. If there is none, it makes one with
// fresh, which must not block.
func (t *table) ref(k key, fresh func(id uint64) *inode) (n *inode, isNew bool) {
	s := &t.byKey[keyShard(k)]
	s.Lock()
	defer s.Unlock()
	n = s.m[k]
	if n == nil {
		n = t.wakeLocked(k)
	}
	if n != nil {
		n.nlookup++
		t.ledger.lookups(n)
		return n, false
	}
	n = fresh(t.nextID.Add(1))
	n.nlookup = 1
	t.ledger.add(n)
	s.m[k] = n
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

// detach releases the key of n for another file after n lost its last name. The node id stays valid
// until the kernel forgets it.
func (t *table) detach(n *inode) {
	s := &t.byKey[keyShard(n.key)]
	s.Lock()
	if s.m[n.key] == n {
		delete(s.m, n.key)
	}
	t.ledger.flag(n, nodeDetached, true)
	s.Unlock()
}

// forget drops count references of a node, and reports whether the last one is gone.
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
	if s.m[n.key] == n {
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

// handles finds open files by handle number.
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

// put registers h under its number.
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

// take removes and returns a handle, or nil.
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
