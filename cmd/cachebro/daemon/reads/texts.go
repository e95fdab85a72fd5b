package reads

import (
	"crypto/sha256"
	"sync"

	"cachebro/store"
)

// maxListings bounds, in bytes, the directory listings and edited texts that are stored for later
// diffs.
const maxListings = 8 << 20

// Texts holds the texts that diffs start from. Most are the store's contents. Listings that were
// sent to readers, and results of agents' edits that the log does not have yet, are in memory only.
// If a text was dropped, a reader gets the whole text instead of a diff.
type Texts struct {
	store *store.Store

	mu       sync.Mutex // guards the fields below
	listings map[store.Hash][]byte
	order    []store.Hash // oldest first
	bytes    int
}

// Content implements readers.Contents.
func (c *Texts) Content(h store.Hash) ([]byte, error) {
	c.mu.Lock()
	b, ok := c.listings[h]
	c.mu.Unlock()
	if ok {
		return b, nil
	}
	return c.store.Content(h)
}

// Has implements readers.Contents.
func (c *Texts) Has(h store.Hash) bool {
	c.mu.Lock()
	_, ok := c.listings[h]
	c.mu.Unlock()
	return ok || c.store.Has(h)
}

// Add stores a listing, or a text that may not be in the log yet, and returns its hash. The
// caller must not change b afterwards.
func (c *Texts) Add(b []byte) store.Hash {
	h := store.Hash(sha256.Sum256(b))
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.listings[h]; ok || len(b) > maxListings {
		return h
	}
	if c.listings == nil {
		c.listings = make(map[store.Hash][]byte)
	}
	c.listings[h] = b
	c.order = append(c.order, h)
	for c.bytes += len(b); c.bytes > maxListings; c.order = c.order[1:] {
		c.bytes -= len(c.listings[c.order[0]])
		delete(c.listings, c.order[0])
	}
	return h
}

// NewTexts returns Texts with only the contents of a store.
func NewTexts(st *store.Store) *Texts { return &Texts{store: st} }
