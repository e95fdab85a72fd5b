package daemon

import (
	"os"
	"path/filepath"
	"testing"
)

// TestReplaceHistory checks that a new history replaces an empty one, and that the index is removed.
func TestReplaceHistory(t *testing.T) {
	for _, had := range []bool{false, true} {
		state := t.TempDir()
		fresh := filepath.Join(state, "import")
		for _, d := range []string{fresh, filepath.Join(state, "index")} {
			if err := os.Mkdir(d, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if had {
			if err := os.MkdirAll(filepath.Join(state, "store", "old"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(fresh, "new"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := replaceHistory(state, fresh); err != nil {
			t.Fatal(err)
		}
		left, err := filepath.Glob(filepath.Join(state, "*", "*"))
		if err != nil || len(left) != 1 || left[0] != filepath.Join(state, "store", "new") {
			t.Errorf("with a store before, %v: %v, %v", had, left, err)
		}
		if all, _ := os.ReadDir(state); len(all) != 1 {
			t.Errorf("with a store before, %v: %v", had, all)
		}
	}
}
