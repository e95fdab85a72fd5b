package mounts

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The name of the directory that holds the histories may contain pattern characters.
func TestHistoriesInAnOddPlace(t *testing.T) {
	base := filepath.Join(t.TempDir(), "work [old]")
	state := func(name string, id Identity) string {
		t.Helper()
		dir := filepath.Join(base, name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := id.Write(dir); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	gone := Identity{Root: filepath.Join(base, "gone"), Dev: 1, Ino: 2, Birth: 3, Common: "/repo/.git"}
	a := state("a-0123456789abcdef", gone)
	b := state("b-0123456789abcdef", Identity{Root: base, Dev: 1, Ino: 5, Birth: 3, Common: "/repo/.git"})
	state("c-0123456789abcdef", Identity{Root: base, Dev: 1, Ino: 6, Birth: 3, Common: "/other/.git"})
	now := gone
	now.Root = filepath.Join(base, "moved")
	if old, ok := MovedFrom(base, now); !ok || old != gone.Root {
		t.Errorf("moved from %q, %v", old, ok)
	}
	if all := Siblings(base, a); !slices.Equal(all, []string{b}) {
		t.Errorf("siblings: %q", all)
	}
}
