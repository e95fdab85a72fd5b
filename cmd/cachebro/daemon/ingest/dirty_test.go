package ingest

import (
	"testing"

	"cachebro/store"
)

// A file that is removed while a process has it open for writing is no longer being changed under
// that name. Otherwise a file that was made under that name later could not be undone.
func TestDirtyNames(t *testing.T) {
	var d dirtyTable
	d.mount(true)
	d.set(1, "removed")
	d.set(1, "other name")
	d.set(2, "moved")
	d.set(3, "replaced")
	d.removeName("removed")
	d.removeName("replaced")
	d.renamed("moved", "replaced")
	for p, want := range map[store.Path]bool{"removed": false, "other name": true, "moved": false, "replaced": true} {
		if d.has(p) != want {
			t.Errorf("%s is in motion: %v, want %v", p, !want, want)
		}
	}
	d.clear(1)
	d.clear(2)
	if len(d.paths) > 0 {
		t.Errorf("in motion when everything is closed: %v", d.paths)
	}
}
