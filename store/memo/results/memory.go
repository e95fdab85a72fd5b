package results

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// Memory keeps the entries that were used last.
type Memory struct {
	entries, bytes int // bounds

	mu    sync.Mutex // guards the fields below
	used  int        // bytes
	table map[string]*list.Element
	order *list.List // of *memoryEntry, used last in front
}

type memoryEntry struct {
	key string
	e   Entry
}

var _ Store = (*Memory)(nil)

// NewMemory makes a store of at most so many entries (0: 1,000) and bytes (0:
// 32 MiB).
func NewMemory(entries, bytes int) *Memory {
	if entries <= 0 {
		entries = 1000
	}
	if bytes <= 0 {
		bytes = 32 << 20
	}
	return &Memory{entries: entries, bytes: bytes, table: map[string]*list.Element{}, order: list.New()}
}

// Name implements Store.
func (m *Memory) Name() string { return "memory" }

// Get implements Store.
func (m *Memory) Get(_ context.Context, key string) (Entry, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	el, ok := m.table[key]
	if !ok {
		return Entry{}, false, nil
	}
	m.order.MoveToFront(el)
	return el.Value.(*memoryEntry).e, true, nil
}

// Set implements Store. An entry larger than an eighth of the bound is not kept:
// it would drive out too many.
func (m *Memory) Set(_ context.Context, key string, e Entry, _ time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropLocked(m.table[key])
	size := e.size()
	if size > m.bytes/8 {
		return nil
	}
	m.table[key] = m.order.PushFront(&memoryEntry{key, e})
	for m.used += size; m.used > m.bytes || len(m.table) > m.entries; {
		m.dropLocked(m.order.Back())
	}
	return nil
}

// dropLocked needs mu; nil is nothing.
func (m *Memory) dropLocked(el *list.Element) {
	if el == nil {
		return
	}
	me := m.order.Remove(el).(*memoryEntry)
	delete(m.table, me.key)
	m.used -= me.e.size()
}

// Delete implements Store.
func (m *Memory) Delete(_ context.Context, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropLocked(m.table[key])
	return nil
}

// Clear implements Store.
func (m *Memory) Clear(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.order.Init()
	clear(m.table)
	m.used = 0
	return nil
}

// Len implements Store.
func (m *Memory) Len(context.Context) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.table), nil
}
