package readers

import (
	"container/list"
	"sync"

	"cachebro/store"
	"cachebro/store/diff"
)

// lru is a bounded map; the least recently used entry goes first.
type lru[K comparable, V any] struct {
	mu    sync.Mutex // guards order, at and used
	order list.List  // of lruEntry, latest first
	at    map[K]*list.Element
	used  int
	max   int         // of the sum of costs
	cost  func(V) int // nil: every entry costs 1
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

// getOr returns the entry of k, making it if there is none; make is quick.
func (c *lru[K, V]) getOr(k K, make func() V) V {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.at[k]; e != nil {
		c.order.MoveToFront(e)
		return e.Value.(lruEntry[K, V]).val
	}
	v := make()
	c.putLocked(k, v)
	return v
}

// put enters what is not there yet; what is too large for the whole is not kept.
func (c *lru[K, V]) put(k K, v V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at[k] == nil && c.costOf(v) <= c.max/4 {
		c.putLocked(k, v)
	}
}

func (c *lru[K, V]) costOf(v V) int {
	if c.cost == nil {
		return 1
	}
	return c.cost(v)
}

func (c *lru[K, V]) putLocked(k K, v V) {
	c.at[k] = c.order.PushFront(lruEntry[K, V]{k, v})
	for c.used += c.costOf(v); c.used > c.max; {
		last := c.order.Back()
		e := last.Value.(lruEntry[K, V])
		c.used -= c.costOf(e.val)
		delete(c.at, e.key)
		c.order.Remove(last)
	}
}

type metaKey struct {
	hash      store.Hash
	rendering store.Rendering // as asked
}

type metaCache = lru[metaKey, meta]

func newMetaCache(max int) *metaCache { return newLRU[metaKey, meta](max) }

// viewCache keeps contents as they were looked at last: the base of the next
// diff is nearly always the text that was sent before.
type viewCache = lru[metaKey, *view]

func newViewCache(bytes int) *viewCache {
	c := newLRU[metaKey, *view](bytes)
	c.cost = func(v *view) int { return 256 + len(v.text) + 24*len(v.lines) + v.sum.Size() }
	return c
}

// seen renders a content, unless that was done a moment ago.
func (s *Tracker) seen(h store.Hash, r store.Rendering, content func() ([]byte, error)) (*view, error) {
	k := metaKey{h, r}
	if v, ok := s.views.get(k); ok {
		return v, nil
	}
	b, err := content()
	if err != nil {
		return nil, err
	}
	v := look(b, r)
	return &v, nil
}

// old is an earlier content; nil if it cannot be had any more.
func (s *Tracker) old(h store.Hash, r store.Rendering) *view {
	if !s.contents.Has(h) {
		return nil
	}
	v, err := s.seen(h, r, func() ([]byte, error) { return s.contents.Content(h) })
	if err != nil {
		return nil
	}
	return v
}

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
func (s *Tracker) script(old, new store.Hash, a, b *view) *diff.Script {
	f := s.scripts.getOr(scriptKey{old, new, b.rendering}, func() *found { return &found{} })
	var made *diff.Script
	f.once.Do(func() {
		made = diff.CompareLines(a.lines, b.lines)
		f.edits = made.Edits
	})
	if made != nil {
		return made
	}
	return &diff.Script{Old: a.lines, New: b.lines, Edits: f.edits}
}
