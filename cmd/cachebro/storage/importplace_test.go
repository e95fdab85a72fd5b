package storage

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cachebro/cmd/cachebro/cli"
)

// TestClearBeside: an import that was killed right after the histories had
// changed places left the former one where the next import begins by removing
// what is there.
func TestClearBeside(t *testing.T) {
	for _, tc := range []struct {
		name   string
		files  []string
		saved  bool
		noting bool
	}{
		{"nothing there", nil, false, false},
		{"begun", []string{importing, "lock"}, false, false},
		{"half made", []string{importing, "store/db/MANIFEST", "store/db/000001.vlog"}, false, false},
		{"half removed", []string{"lock", "store/half"}, false, false},
		{"whole", []string{"lock", "identity", "store/db/MANIFEST"}, true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			beside, saved := filepath.Join(dir, "beside"), filepath.Join(dir, "saved")
			for _, f := range tc.files {
				f = filepath.Join(beside, f)
				if err := os.MkdirAll(filepath.Dir(f), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(f, []byte(f), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var said bytes.Buffer
			if err := clearBeside((&cli.Env{Stderr: &said}), beside, saved); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Lstat(beside); err == nil {
				t.Error("something is still in the way")
			}
			for _, f := range tc.files {
				if b, err := os.ReadFile(filepath.Join(saved, f)); (err == nil) != tc.saved || tc.saved && string(b) != filepath.Join(beside, f) {
					t.Errorf("%s: %q, %v", f, b, err)
				}
			}
			if strings.Contains(said.String(), "saved") != tc.noting {
				t.Errorf("it says %q", said.String())
			}
		})
	}
}

func TestPutHistory(t *testing.T) {
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
		if err := putHistory(state, fresh); err != nil {
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
