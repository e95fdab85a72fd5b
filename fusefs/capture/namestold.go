package capture

import (
	"sync"

	"cachebro/fusefs"
)

const (
	// manyNames is the number of names from which a file is in the table. All names of a file with
	// fewer are recorded again with each change.
	manyNames = 8
	// maxTold bounds the names in the table. When there are more, it is emptied.
	maxTold = 1 << 16
)

// namesTold holds, for files with many names, the names that the spool has already. A change of a
// file records all its names that no scan has recorded. Without this table, each new name of a file
// with 5,000 names caused a record of every existing name, which made 12 million records in all.
type namesTold struct {
	mu    sync.Mutex // guards the rest; a leaf
	files map[uint64]map[string]struct{}
	n     int
}

// has reports whether a file's name was recorded.
func (t *namesTold) has(f fusefs.File, name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.files[f.ID()][name]
	return ok
}

// add stores that a file's name was recorded. nlink is the file's link count.
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

// clear empties the table.
func (t *namesTold) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.files, t.n = nil, 0
}
