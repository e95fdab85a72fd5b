package results

import (
	"maps"
	"sync"
)

// Counts holds the counts for one tool since the cache was made.
type Counts struct {
	Hits     int64 `json:"hits"`
	Joined   int64 `json:"joined"` // waited for an identical call of another caller
	Misses   int64 `json:"misses"`
	Stale    int64 `json:"stale"` // invalid entries; the call is then a miss, or a hit in another store
	Errors   int64 `json:"errors"`
	Bypassed int64 `json:"bypassed"` // the tool is off
}

// Stats are the counters of a cache.
type Stats struct {
	Tools map[string]Counts `json:"tools"`
	// Stores counts hits by the name of the store, and failures by the name followed by " failed".
	Stores map[string]int64 `json:"stores"`
}

type counters struct {
	mu     sync.Mutex // guards the fields below
	tools  map[string]*Counts
	stores map[string]int64
}

func (c *counters) add(tool string, fn func(*Counts)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.tools[tool]
	if n == nil {
		n = new(Counts)
		c.tools[tool] = n
	}
	fn(n)
}

func (c *counters) store(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stores[name]++
}

// Stats returns a copy of the counters.
func (c *Cache) Stats() Stats {
	c.counts.mu.Lock()
	defer c.counts.mu.Unlock()
	s := Stats{Tools: make(map[string]Counts, len(c.counts.tools)), Stores: maps.Clone(c.counts.stores)}
	for tool, n := range c.counts.tools {
		s.Tools[tool] = *n
	}
	return s
}
