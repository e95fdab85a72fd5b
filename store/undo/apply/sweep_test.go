package apply

import (
	"os"
	"path/filepath"
	"testing"

	"cachebro/store/leaf/text"
	"cachebro/store/wire"
)

// Files that a killed process had begun to write used to stay in the tree under their temporary
// names if the step was done after all, if it failed, or if the plan was rolled back.
func TestResumeRemovesWhatWasBegun(t *testing.T) {
	begun := func(t *testing.T) (string, wire.Plan) {
		dir := t.TempDir()
		write(t, "old", dir, "there already")
		write(t, "changed by somebody", dir, "failed")
		if err := os.Mkdir(filepath.Join(dir, "d"), 0o755); err != nil {
			t.Fatal(err)
		}
		step := func(n int, path, do string) wire.PlanStep {
			return wire.PlanStep{N: n, Do: do, Path: []byte(path), Hash: text.Hash([]byte("old")), Target: []byte("x"), Mode: 0o644, Expect: text.Hash([]byte("new"))}
		}
		p := wire.Plan{ID: "undo-1", Steps: []wire.PlanStep{step(1, "there already", "write"), step(2, "failed", "write"), step(3, "d/link", "symlink")}}
		for _, name := range []string{".cachebro-undo-1-1~", ".cachebro-undo-1-2~", "d/.cachebro-undo-1-3~"} {
			write(t, "", dir, name)
		}
		return dir, p
	}
	left := func(t *testing.T, dir string) {
		t.Helper()
		for _, pattern := range []string{".cachebro-*", "d/.cachebro-*"} {
			if names, _ := filepath.Glob(filepath.Join(dir, pattern)); len(names) > 0 {
				t.Errorf("left: %v", names)
			}
		}
	}
	work := Work{After: func(int) error { return nil }}
	t.Run("resumed", func(t *testing.T) {
		dir, p := begun(t)
		p.Resume = true
		if _, err := Plan(t.Context(), dir, p, work); err != nil {
			t.Fatal(err)
		}
		left(t, dir)
	})
	t.Run("rolled back", func(t *testing.T) {
		dir, p := begun(t)
		back := wire.Plan{ID: "redo-2", Cut: &p, Steps: []wire.PlanStep{{N: 1, Do: "chmod", Path: []byte("there already"), Mode: 0o600}}}
		if _, err := Plan(t.Context(), dir, back, work); err != nil {
			t.Fatal(err)
		}
		left(t, dir)
	})
	t.Run("nothing to roll back", func(t *testing.T) {
		dir, p := begun(t)
		if err := Sweep(dir, &p); err != nil {
			t.Fatal(err)
		}
		left(t, dir)
	})
}
