package source

import (
	"os"
	"path/filepath"
	"testing"

	"cachebro/store/leaf/ignore"
)

// A mount moves along if a directory above its mountpoint is renamed. The daemon took its project for
// removed and ended. Each change on the mount started another one, which ended within a second.
func TestNotGoneWhileServed(t *testing.T) {
	above := filepath.Join(t.TempDir(), "above")
	root := filepath.Join(above, "project")
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	s := New(root, ignore.Options{})
	defer s.Drop()
	dir, err := os.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	s.Set(dir, "mountd")
	if err := os.Rename(above, above+".moved"); err != nil {
		t.Fatal(err)
	}
	if err := s.Gone(); err != nil {
		t.Errorf("while a mountd serves it: %v", err)
	}
	s.Unmounted()
	if s.Gone() == nil {
		t.Error("it is not gone after the unmount")
	}
}
