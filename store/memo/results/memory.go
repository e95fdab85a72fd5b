package results

import (
	"context"
	"time"

	"cachebro/store/leaf/cache"
)

// Memory caches the most recently used entries in memory.
type Memory struct {
	entries *cache.Cache[string, Entry]
}

var _ Store = (*Memory)(nil)

// NewMemory returns a store of at most the given number of bytes (0: 32 MiB).
func NewMemory(bytes int) *Memory {
	if bytes <= 0 {
		bytes = 32 << 20
	}
	return &Memory{cache.New[string](bytes, func(e Entry) int { return e.size() })}
}

// Name implements Store.
func (m *Memory) Name() string { return "memory" }

// Get implements Store.
func (m *Memory) Get(_ context.Context, key string) (Entry, bool, error) {
	e, ok := m.entries.Get(key)
	return e, ok, nil
}

// Set implements Store.
func (m *Memory) Set(_ context.Context, key string, e Entry, _ time.Duration) error {
	m.entries.Put(key, e)
	return nil
}

// Clear implements Store.
func (m *Memory) Clear(context.Context) error {
	m.entries.Clear()
	return nil
}
