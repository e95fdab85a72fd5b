package history

import (
	"path/filepath"
	"strings"
	"testing"

	"cachebro/store/wire"
)

// A plan for files outside of projects used to list existing directories too, such as "A /home/".
// The directories looked as if they had been deleted and had to be made again.
func TestDirectoriesThatAreThereAreNotListed(t *testing.T) {
	there := t.TempDir()
	below := func(p string) []byte { return []byte(strings.TrimPrefix(p, "/")) }
	lost := filepath.Join(there, "lost")
	p := wire.Plan{Steps: []wire.PlanStep{{Do: "mkdir", Path: below(there)}, {Do: "mkdir", Path: below(lost)}, {Do: "write", Path: below(lost + "/f")}}}
	shown := absolute(p)
	if len(shown.Steps) != 2 || string(shown.Steps[0].Path) != lost || len(p.Steps) != 3 {
		t.Errorf("shown: %+v", shown.Steps)
	}
}
