package capture

import (
	"sync"

	"cachebro/fusefs"
)

const (
	// manyNames: of a file with fewer names each is told again with each change.
	manyNames = 8
	// maxTold bounds the names in the table, which is then begun anew.
	maxTold = 1 << 16
)

// namesTold are names of files with many of which the spool tells already. A change of
// such a file tells of all its names that no scan has told of: with each new name of a
// file with 5,000, of 5,000 that the history knew. Together that was 12 million records.
type namesTold struct {
	mu    sync.Mutex // guards the rest; a leaf
	files map[uint64]map[string]struct{}
	n     int
}

// has reports whether a file's name was told.
func (t *namesTold) has(f fusefs.File, name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.files[f.ID()][name]
	return ok
}

// add notes that a file's name was told; nlink is how many it has.
func (t *namesTold) add(f fusefs.File, name string, nlink uint32) {
	if nlink < manyNames {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n >= maxTold || t.files == nil {
		t.files, t.n = map[uint64]map[string]struct{}{}, 0
	}
	names := t.files[f.ID()]
	if names == nil {
		names = map[string]struct{}{}
		t.files[f.ID()] = names
	}
	names[name] = struct{}{}
	t.n++
}

// clear forgets all.
func (t *namesTold) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.files, t.n = nil, 0
}
