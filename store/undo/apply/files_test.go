package apply

import (
	"testing"

	"cachebro/store/wire"
)

// TestFilesAsTheLogCounts: undo used to say "44 files" for 43 files in a new directory, while
// status and log said 43.
func TestFilesAsTheLogCounts(t *testing.T) {
	step := func(do, path string) wire.PlanStep { return wire.PlanStep{Do: do, Path: []byte(path)} }
	for name, c := range map[string]struct {
		steps []wire.PlanStep
		want  int
	}{
		"a directory and its files":       {[]wire.PlanStep{step("delete", "d/a"), step("delete", "d/e/b"), step("rmdir", "d/e"), step("rmdir", "d")}, 2},
		"empty directories in each other": {[]wire.PlanStep{step("mkdir", "d"), step("mkdir", "d/e")}, 1},
		"one empty directory":             {[]wire.PlanStep{step("rmdir", "d")}, 1},
		"a file in place of a directory":  {[]wire.PlanStep{step("delete", "d/a"), step("rmdir", "d"), step("write", "d")}, 2},
		"a renamed directory and a file":  {[]wire.PlanStep{step("rename", "d"), step("write", "d/a")}, 2},
		"one file twice":                  {[]wire.PlanStep{step("write", "a"), step("chmod", "a")}, 1},
		"beside a directory of that name": {[]wire.PlanStep{step("mkdir", "d"), step("write", "d.txt")}, 2},
	} {
		if n := Files(wire.Plan{Steps: c.steps}); n != c.want {
			t.Errorf("%s: %d files, want %d", name, n, c.want)
		}
	}
}
