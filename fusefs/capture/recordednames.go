package capture

import (
	"sync"

	"cachebro/fusefs"
)

const (
	// manyNames is how many names a file needs to be in the table. Files with fewer names have all
	// of them recorded with each change.
	manyNames = 8
	// maxRecordedNames bounds the names in the table. When it is exceeded, the table is cleared.
	maxRecordedNames = 1 << 16
)

// recordedNames holds, for files with many names, the names that are already in the spool. A change
// of a file records all its names that no scan has recorded. Without this table, a file with 5,000
// names caused 12 million records.
type recordedNames struct {
	mu    sync.Mutex // guards files; a leaf
	files map[uint64]map[string]struct{}
	n     int
}

func (t *recordedNames) has(f fusefs.File, name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.files[f.ID()][name]
	return ok
}

// add stores that a name of a file was recorded. nlink is the file's link count.
func (t *recordedNames) add(f fusefs.File, name string, nlink uint32) {
	if nlink < manyNames {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n >= maxRecordedNames || t.files == nil {
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

func (t *recordedNames) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.files, t.n = nil, 0
}
