package capture

import (
	"sync"

	"cachebro/fusefs"
)

const (
	// manyNames is the smallest number of names with which a file is in the table. For a file with
	// fewer names, each change records all of them.
	manyNames = 8
	// maxRecordedNames bounds the names in the table. When it is exceeded, the table is cleared.
	maxRecordedNames = 1 << 16
)

// recordedNames holds, for files with many names, the names that are already in the spool. A change
// of a file records all its names that no scan has recorded. Without this table, a file with 5,000
// names caused 12 million records.
type recordedNames struct {
	mu    sync.Mutex // guards files; a leaf lock
	files map[uint64]*namesOfFile
	n     int
}

type namesOfFile struct {
	names map[string]struct{}
	// complete is the value of the file's NamesSeen when names last held all its names, or 0 if
	// names never held all of them.
	complete uint32
}

func (t *recordedNames) has(f fusefs.File, name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.files[f.ID()]
	if of == nil {
		return false
	}
	_, ok := of.names[name]
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
		t.files, t.n = map[uint64]*namesOfFile{}, 0
	}
	of := t.files[f.ID()]
	if of == nil {
		of = &namesOfFile{names: map[string]struct{}{}}
		t.files[f.ID()] = of
	}
	of.names[name] = struct{}{}
	t.n++
}

// addNew is like add, for a name that the file has just got.
func (t *recordedNames) addNew(f fusefs.File, name string, nlink uint32) {
	t.add(f, name, nlink)
	seen := f.NamesSeen()
	t.mu.Lock()
	defer t.mu.Unlock()
	if of := t.files[f.ID()]; of != nil && of.complete > 0 && of.complete+1 == seen {
		of.complete = seen
	}
}

// complete reports whether all names of a file were recorded. seen is the file's NamesSeen.
func (t *recordedNames) complete(f fusefs.File, seen uint32) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.files[f.ID()]
	return seen > 0 && of != nil && of.complete == seen
}

// noteComplete checks whether all names of a file are in the table, and if so, records that. names
// are the names that the file had when its NamesSeen was seen.
func (t *recordedNames) noteComplete(f fusefs.File, seen uint32, names []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.files[f.ID()]
	if of == nil {
		return
	}
	for _, p := range names {
		if _, ok := of.names[p]; !ok {
			return
		}
	}
	of.complete = seen
}

func (t *recordedNames) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.files, t.n = nil, 0
}
