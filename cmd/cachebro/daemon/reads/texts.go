package reads

import (
	"crypto/sha256"

	"cachebro/store"
	"cachebro/store/leaf/cache"
)

// maxListings bounds, in bytes, the directory listings and edited texts that are stored for later
// diffs.
const maxListings = 8 << 20

// Texts holds the texts that diffs start from. Most are the store's contents. Listings that were
// sent to readers, and results of agents' edits that the log does not have yet, are in memory only.
// If a text was dropped, a reader gets the whole text instead of a diff.
type Texts struct {
	store *store.Store
	added *cache.Cache[store.Hash, []byte]
}

// Content implements readers.Contents.
func (c *Texts) Content(h store.Hash) ([]byte, error) {
	if b, ok := c.added.Get(h); ok {
		return b, nil
	}
	return c.store.Content(h)
}

// Add stores a listing, or a text that may not be in the log yet, and returns its hash. The
// caller must not change b afterwards.
func (c *Texts) Add(b []byte) store.Hash {
	h := store.Hash(sha256.Sum256(b))
	c.added.Put(h, b)
	return h
}

// NewTexts returns Texts with only the contents of a store.
func NewTexts(st *store.Store) *Texts {
	return &Texts{st, cache.New[store.Hash](maxListings, func(b []byte) int { return len(b) })}
}
