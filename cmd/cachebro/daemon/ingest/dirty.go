package ingest

import (
	"maps"
	"slices"
	"sync"

	"cachebro/store"
)

// dirtyTable holds the files whose content is being changed. mountd reports a file before its first
// byte changes. The next version of the inode removes the file from the table.
type dirtyTable struct {
	mu    sync.Mutex // guards the fields below
	nodes map[uint64][]store.Path
	paths map[store.Path]int
	files map[uint64]store.Inode // the inodes of the nodes that have several names
	// former and formerFiles hold the paths and files that a killed mountd had reported. They are
	// cleared once the next mountd has reported which files are still being changed.
	former      map[store.Path]int
	formerFiles []store.Inode
}

// set enters a file by one of its names. in is zero if the file has no other name.
func (t *dirtyTable) set(node uint64, p store.Path, in store.Inode) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if in.Ino != 0 {
		t.files[node] = in
	}
	if slices.Contains(t.nodes[node], p) || len(t.paths) > 100_000 {
		return
	}
	t.nodes[node] = append(t.nodes[node], p)
	t.paths[p]++
}

func (t *dirtyTable) clear(node uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.nodes[node] {
		if t.paths[p]--; t.paths[p] <= 0 {
			delete(t.paths, p)
		}
	}
	delete(t.nodes, node)
	delete(t.files, node)
}

// removeName removes a name under which content was being changed. A process may still write to the
// open file, but the name may now belong to another file.
func (t *dirtyTable) removeName(p store.Path) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.paths[p]+t.former[p] == 0 {
		return
	}
	t.rename(func(q store.Path) store.Path {
		if q == p {
			return ""
		}
		return q
	})
}

// moved updates the table after a rename or, if both is set, after an exchange of two names. If dir
// is set, a directory was renamed, and so were the paths below it.
func (t *dirtyTable) moved(from, to store.Path, dir, both bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !dir && t.paths[from]+t.paths[to]+t.former[from]+t.former[to] == 0 {
		return
	}
	t.rename(func(q store.Path) store.Path {
		switch {
		case q.Inside(from):
			return to + q[len(from):]
		case !q.Inside(to):
			return q
		case both:
			return from + q[len(to):]
		}
		return "" // replaced
	})
}

// rename gives each path its new name, or removes the path if that is "". mu is held.
func (t *dirtyTable) rename(name func(store.Path) store.Path) {
	paths, former := map[store.Path]int{}, map[store.Path]int{}
	for node, all := range t.nodes {
		var kept []store.Path
		for _, p := range all {
			p = name(p)
			if p != "" && !slices.Contains(kept, p) {
				kept = append(kept, p)
				paths[p]++
			}
		}
		t.nodes[node] = kept
	}
	for p, n := range t.former {
		p = name(p)
		if p != "" {
			former[p] = n
		}
	}
	t.paths, t.former = paths, former
}

// mount clears the table for another mountd. ended says that the last mountd left no file
// open.
func (t *dirtyTable) mount(ended bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.former, t.formerFiles = nil, nil
	if !ended {
		t.former, t.formerFiles = t.paths, slices.Collect(maps.Values(t.files))
	}
	t.nodes = map[uint64][]store.Path{}
	t.paths = map[store.Path]int{}
	t.files = map[uint64]store.Inode{}
}

// complete notes that the new mountd has reported everything that is being changed.
func (t *dirtyTable) complete() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.former, t.formerFiles = nil, nil
}

func (t *dirtyTable) has(p store.Path) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.paths[p] > 0 || t.former[p] > 0
}

// linked returns the files with several names whose content is being changed.
func (t *dirtyTable) linked() []store.Inode {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.AppendSeq(slices.Clone(t.formerFiles), maps.Values(t.files))
}

// writingBelow reports whether p or anything in its subtree is being written.
func (t *dirtyTable) writingBelow(p store.Path) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for q := range t.paths {
		if q.Inside(p) {
			return true
		}
	}
	return false
}
