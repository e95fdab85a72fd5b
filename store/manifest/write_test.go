package manifest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestUpdate(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, Name)
	set := func(v string) func([]byte) ([]byte, error) {
		return func(text []byte) ([]byte, error) { return Set(text, v, "nodes", "a", "summary") }
	}
	if changed, err := Update(dir, set("1")); err != nil || !changed {
		t.Fatal(changed, err)
	}
	// The file lies elsewhere and is only for its owner: both stay so.
	other := filepath.Join(t.TempDir(), "real.yml")
	if err := errors.Join(os.Rename(name, other), os.Chmod(other, 0o640), os.Symlink(other, name)); err != nil {
		t.Fatal(err)
	}
	if changed, err := Update(dir, set("2")); err != nil || !changed {
		t.Fatal(changed, err)
	}
	if st, err := os.Stat(other); err != nil || st.Mode().Perm() != 0o640 {
		t.Error(st, err)
	}
	if link, err := os.Readlink(name); err != nil || link != other {
		t.Error(link, err)
	}
	if changed, err := Update(dir, set("2")); err != nil || changed {
		t.Error("written although nothing changed", err)
	}
	// Somebody writes between Read and Write, once: the edit is made again on it.
	meddled := false
	_, err := Update(dir, func(text []byte) ([]byte, error) {
		if !meddled {
			meddled = true
			if err := os.WriteFile(other, append([]byte("# mine\n"), text...), 0o640); err != nil {
				return nil, err
			}
		}
		return Set(text, "3", "nodes", "a", "summary")
	})
	if text, _ := os.ReadFile(other); err != nil || string(text) != "# mine\nnodes:\n  a:\n    summary: \"3\"\n" {
		t.Errorf("%v\n%s", err, text)
	}
	// Always: it gives up and says so, and the file is theirs.
	n := 0
	_, err = Update(dir, func(text []byte) ([]byte, error) {
		n++
		if err := os.WriteFile(other, []byte(strings.Repeat("# mine\n", n)), 0o640); err != nil {
			return nil, err
		}
		return Set(text, "4", "nodes", "a", "summary")
	})
	if text, _ := os.ReadFile(other); !errors.Is(err, ErrChanged) || strings.Contains(string(text), "4") {
		t.Errorf("%v\n%s", err, text)
	}
	// An edit that fails leaves the file alone.
	if err := os.WriteFile(other, []byte("nodes: ["), 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err = Update(dir, set("5")); err == nil {
		t.Error("a broken file was edited")
	}
	if text, _ := os.ReadFile(other); string(text) != "nodes: [" {
		t.Errorf("a broken file was changed: %s", text)
	}
}
