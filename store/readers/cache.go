package readers

import (
	"sync"

	"cachebro/store"
	"cachebro/store/diff"
	"cachebro/store/leaf/cache"
)

type metaKey struct {
	hash      store.Hash
	rendering store.Rendering // as requested
}

type metaCache = cache.Cache[metaKey, meta]

// viewCache caches recently rendered contents. The base of the next diff is nearly always the text
// that was sent last.
type viewCache = cache.Cache[metaKey, *view]

func newViewCache(bytes int) *viewCache {
	return cache.New[metaKey](bytes, func(v *view) int { return 256 + len(v.text) + 24*len(v.lines) + v.sum.Size() })
}

// viewOf returns the view of a content, cached if possible.
func (s *Tracker) viewOf(h store.Hash, r store.Rendering, content func() ([]byte, error)) (*view, error) {
	k := metaKey{h, r}
	if v, ok := s.views.Get(k); ok {
		return v, nil
	}
	b, err := content()
	if err != nil {
		return nil, err
	}
	v := render(b, r)
	return &v, nil
}

// oldView returns the view of an earlier content, or nil if that content is not available.
func (s *Tracker) oldView(h store.Hash, r store.Rendering) *view {
	if !s.contents.Has(h) {
		return nil
	}
	v, err := s.viewOf(h, r, func() ([]byte, error) { return s.contents.Content(h) })
	if err != nil {
		return nil
	}
	return v
}

type scriptKey struct {
	old, new  store.Hash
	rendering store.Rendering
}

// scriptEntry holds the edits between two contents. The first caller computes them. Concurrent
// callers for the same pair wait for the result.
type scriptEntry struct {
	once  sync.Once
	edits []diff.Edit
}

type scriptCache = cache.Cache[scriptKey, *scriptEntry]

// script compares two views, or returns the cached edits.
func (s *Tracker) script(old, new store.Hash, a, b *view) *diff.Script {
	f := s.scripts.GetOr(scriptKey{old, new, b.rendering}, func() *scriptEntry { return &scriptEntry{} })
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
