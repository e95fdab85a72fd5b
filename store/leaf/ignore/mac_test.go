package ignore

import (
	"os"
	"testing"
	"time"
)

// Files that macOS creates by itself are not recorded, whether or not there is a repository. On
// other systems these are ordinary names.
func TestNamesOfMacOS(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/.cachebroignore", []byte("!._kept\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	was := mac
	defer func() { mac = was }()
	for _, mac = range []bool{true, false} {
		m, err := New(root, Options{Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		for name, own := range map[string]bool{
			".DS_Store": true, "a/.DS_Store": true, ".Spotlight-V100": true, ".fseventsd/x": true, "a/._b.go": true,
			"._": false, "a/_b": false, ".dsstore": false, "a.DS_Store": false, "._kept": false, "main.go": false,
		} {
			want := Tracked
			if own && mac {
				want = Excluded
			}
			if got := m.Class(name, false); got != want {
				t.Errorf("mac %v: %s is %v, not %v", mac, name, got, want)
			}
		}
		m.Close()
	}
}
