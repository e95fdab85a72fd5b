package ingest

import (
	"testing"

	"cachebro/store"
)

// A file that is removed while a process has it open for writing is no longer being changed under
// that name. Otherwise an undo would leave alone a file that is made later under that name.
func TestDirtyNames(t *testing.T) {
	var d dirtyTable
	d.mount(true)
	d.set(1, "removed", store.Inode{})
	d.set(1, "other name", store.Inode{})
	d.set(2, "moved", store.Inode{})
	d.set(3, "replaced", store.Inode{})
	d.removeName("removed")
	d.removeName("replaced")
	d.moved("moved", "replaced", false, false)
	// The paths below a directory are renamed with it. A path that remained in the table used to be
	// mistaken for a file that a plan made there later. The plan's file could then not be removed,
	// because "it is being written".
	d.set(4, "dir/below", store.Inode{})
	d.set(5, "taken/below", store.Inode{})
	d.set(6, "one", store.Inode{})
	d.set(7, "two/below", store.Inode{})
	d.moved("dir", "taken", true, false)
	d.moved("one", "two", true, true)
	for p, want := range map[store.Path]bool{
		"removed": false, "other name": true, "moved": false, "replaced": true,
		"dir/below": false, "taken/below": true, "one": false, "two": true, "two/below": false, "one/below": true,
	} {
		if d.has(p) != want {
			t.Errorf("%s is in motion: %v, want %v", p, !want, want)
		}
	}
	for node := range d.nodes {
		d.clear(node)
	}
	if len(d.paths) > 0 {
		t.Errorf("in motion when everything is closed: %v", d.paths)
	}
}
