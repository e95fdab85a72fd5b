package daemon

import (
	"sync"

	"cachebro/store"
)

// dirtyTable knows files whose content is in motion: told by mountd before the
// first byte changes, over when a version of that inode arrives.
type dirtyTable struct {
	mu    sync.Mutex
	nodes map[uint64]store.Path
	paths map[store.Path]int
}

func (t *dirtyTable) set(node uint64, p store.Path) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.nodes[node]; ok || len(t.nodes) > 100_000 {
		return
	}
	t.nodes[node] = p
	t.paths[p]++
}

func (t *dirtyTable) clear(node uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, ok := t.nodes[node]
	if !ok {
		return
	}
	delete(t.nodes, node)
	if t.paths[p]--; t.paths[p] <= 0 {
		delete(t.paths, p)
	}
}

func (t *dirtyTable) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.nodes, t.paths = map[uint64]store.Path{}, map[store.Path]int{}
}

func (t *dirtyTable) has(p store.Path) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.paths[p] > 0
}
