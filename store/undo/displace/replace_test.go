package displace

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// file returns a File with its present content, as a tool reads it.
func file(t *testing.T, root *os.Root, name string) *File {
	t.Helper()
	f := &File{Root: root, Path: name}
	info, err := root.Stat(name)
	if os.IsNotExist(err) {
		return f
	}
	if err == nil {
		f.Exists, f.Info = true, info
		f.Content, err = root.ReadFile(name)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestPut(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	put := func(name, content string) {
		t.Helper()
		if err := file(t, root, name).Put([]byte(content)); err != nil {
			t.Fatal(err)
		}
		if got, err := root.ReadFile(name); err != nil || string(got) != content {
			t.Fatalf("%s holds %q, %v; want %q", name, got, err, content)
		}
	}
	put("a/b/new", "one")
	if err := root.Chmod("a/b/new", 0o640|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	put("a/b/new", "two")
	if fi, err := root.Stat("a/b/new"); err != nil || fi.Mode() != 0o640 {
		t.Errorf("the mode is %v, %v", fi.Mode(), err)
	}

	// A file with two names remains one file.
	if err := os.Link(filepath.Join(dir, "a/b/new"), filepath.Join(dir, "other")); err != nil {
		t.Fatal(err)
	}
	put("a/b/new", "three")
	if got, _ := root.ReadFile("other"); string(got) != "three" {
		t.Errorf("the other name holds %q", got)
	}
	if err := root.Remove("other"); err != nil {
		t.Fatal(err)
	}

	// A process that has the file open for writing continues to write to the same file.
	w, err := root.OpenFile("a/b/new", os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	put("a/b/new", "four")
	if _, err = w.WriteString("+"); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if got, _ := root.ReadFile("a/b/new"); string(got) != "four+" {
		t.Errorf("after the writer's own word: %q", got)
	}

	// The content changed since it was read.
	f := file(t, root, "a/b/new")
	if err := root.WriteFile("a/b/new", []byte("somebody else's"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.Put([]byte("ours")); !errors.Is(err, ErrMeanwhile) {
		t.Errorf("written over what was not read: %v", err)
	}
	if got, _ := root.ReadFile("a/b/new"); string(got) != "somebody else's" {
		t.Errorf("it holds %q", got)
	}
	if names, err := os.ReadDir(filepath.Join(dir, "a/b")); err != nil || len(names) != 1 {
		t.Errorf("left beside it: %v, %v", names, err)
	}
}
