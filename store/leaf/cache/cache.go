// Package cache caches values that are costly to compute, in bounded memory.
package cache

import "sync"

// Cache is a bounded cache of two generations. It drops an entry that was not used while a whole
// generation filled up. A hit in the young generation costs one map look-up.
type Cache[K comparable, V any] struct {
	cost  func(V) int // nil: every entry costs 1
	limit int         // cost limit of one generation

	// mu guards young, old and used. No other lock is taken while it is held.
	mu         sync.Mutex
	young, old map[K]V
	used       int
}

// New returns a cache whose entries cost at most limit in total.
func New[K comparable, V any](limit int, cost func(V) int) *Cache[K, V] {
	return &Cache[K, V]{cost: cost, limit: limit / 2, young: map[K]V{}, old: map[K]V{}}
}

// Get returns the value stored under k.
func (c *Cache[K, V]) Get(k K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v, ok := c.young[k]; ok {
		return v, true
	}
	v, ok := c.old[k]
	if ok {
		c.putLocked(k, v)
	}
	return v, ok
}

// Put stores v under k. If v costs more than a whole generation may, Put only removes the old value.
func (c *Cache[K, V]) Put(k K, v V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.putLocked(k, v)
}

// GetOr returns the value stored under k, or stores make() if there is none. make must be fast.
func (c *Cache[K, V]) GetOr(k K, make func() V) V {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.young[k]
	if !ok {
		v, ok = c.old[k]
		if !ok {
			v = make()
		}
		c.putLocked(k, v)
	}
	return v
}

func (c *Cache[K, V]) costOf(v V) int {
	if c.cost == nil {
		return 1
	}
	return c.cost(v)
}

// putLocked stores v. The caller holds mu.
func (c *Cache[K, V]) putLocked(k K, v V) {
	n := c.costOf(v)
	if n > c.limit {
		delete(c.young, k)
		delete(c.old, k)
		return
	}
	if was, ok := c.young[k]; ok {
		c.used -= c.costOf(was)
	}
	c.young[k] = v
	c.used += n
	if c.used > c.limit {
		c.old, c.young = c.young, map[K]V{}
		c.used = 0
	}
}

// Drop removes the entry of k.
func (c *Cache[K, V]) Drop(k K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if was, ok := c.young[k]; ok {
		c.used -= c.costOf(was)
		delete(c.young, k)
	}
	delete(c.old, k)
}

// Clear removes all entries.
func (c *Cache[K, V]) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.old, c.young = map[K]V{}, map[K]V{}
	c.used = 0
}
