package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A project whose tools need a setting on a mount gets a finding that names it; others get none.
func TestToolsThatNeedASetting(t *testing.T) {
	bin, root := t.TempDir(), t.TempDir()
	t.Setenv("PATH", bin)
	if got := toolFindings(root); len(got) != 0 {
		t.Fatalf("without any tool: %v", got)
	}
	if err := os.WriteFile(filepath.Join(root, "gradlew"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "uv"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	got := toolFindings(root)
	if len(got) != 2 {
		t.Fatalf("found %v, want gradle by its file and uv by its program", got)
	}
	for i, want := range []string{"org.gradle.vfs.watch=true", "UV_LINK_MODE=copy"} {
		if !got[i].OK || !strings.Contains(got[i].Fix, want) {
			t.Errorf("finding %d: %+v, want a note with %s", i, got[i], want)
		}
	}
}
