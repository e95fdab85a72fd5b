package shown

import (
	"container/list"
	"sync"

	"cachebro/store"
	"cachebro/store/diff"
)

// lru is a bounded map; the least recently used entry goes first.
type lru[K comparable, V any] struct {
	mu    sync.Mutex // guards order and at
	order list.List  // of lruEntry, latest first
	at    map[K]*list.Element
	max   int
}

type lruEntry[K comparable, V any] struct {
	key K
	val V
}

func newLRU[K comparable, V any](max int) *lru[K, V] {
	return &lru[K, V]{at: map[K]*list.Element{}, max: max}
}

func (c *lru[K, V]) get(k K) (v V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.at[k]
	if e == nil {
		return v, false
	}
	c.order.MoveToFront(e)
	return e.Value.(lruEntry[K, V]).val, true
}

// getOr returns the entry of k, making it if there is none.
func (c *lru[K, V]) getOr(k K, make func() V) V {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.at[k]; e != nil {
		c.order.MoveToFront(e)
		return e.Value.(lruEntry[K, V]).val
	}
	v := make()
	c.at[k] = c.order.PushFront(lruEntry[K, V]{k, v})
	if c.order.Len() > c.max {
		last := c.order.Back()
		delete(c.at, last.Value.(lruEntry[K, V]).key)
		c.order.Remove(last)
	}
	return v
}

type metaKey struct {
	hash      store.Hash
	rendering store.Rendering // as asked
}

type metaCache = lru[metaKey, meta]

func newMetaCache(max int) *metaCache { return newLRU[metaKey, meta](max) }

type scriptKey struct {
	old, new  store.Hash
	rendering store.Rendering
}

// found holds the edits between two contents; whoever comes first computes
// them, readers that ask for the same pair at once wait for that.
type found struct {
	once  sync.Once
	edits []diff.Edit
}

type scriptCache = lru[scriptKey, *found]

func newScriptCache(max int) *scriptCache { return newLRU[scriptKey, *found](max) }

// script compares two views, by the cached edits where there are some.
func (s *Shown) script(old, new store.Hash, a, b view) *diff.Script {
	f := s.scripts.getOr(scriptKey{old, new, b.rendering}, func() *found { return &found{} })
	var made *diff.Script
	f.once.Do(func() {
		made = diff.Compare(a.text, b.text)
		f.edits = made.Edits
	})
	if made != nil {
		return made
	}
	return &diff.Script{Old: a.lines, New: b.lines, Edits: f.edits}
}
