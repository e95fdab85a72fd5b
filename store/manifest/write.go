package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrChanged says that somebody else wrote the file between Read and Write.
var ErrChanged = errors.New(Name + " was changed meanwhile")

// Read returns the file of the project at dir, nil where there is none.
func Read(dir string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(dir, Name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", Name, err)
	}
	return text, nil
}

// Write makes after the file of the project at dir: written beside it, synced
// and renamed over it, so that nobody ever sees half of it. Mode is kept, a
// symlink followed. It refuses with ErrChanged when the file is not before any more
// (nil: there must be none).
func Write(dir string, before, after []byte) error {
	name := filepath.Join(dir, Name)
	mode := fs.FileMode(0o644)
	if before != nil {
		target, err := filepath.EvalSymlinks(name)
		if err != nil {
			return fmt.Errorf("write %s: %w", Name, err)
		}
		name = target
		st, err := os.Stat(name)
		if err != nil {
			return fmt.Errorf("write %s: %w", Name, err)
		}
		mode = st.Mode().Perm()
	}
	tmp, err := os.CreateTemp(filepath.Dir(name), Name+".*.tmp")
	if err != nil {
		return fmt.Errorf("write %s: %w", Name, err)
	}
	defer os.Remove(tmp.Name()) // after the rename there is nothing to remove
	_, err = tmp.Write(after)
	if err = errors.Join(err, tmp.Chmod(mode), tmp.Sync(), tmp.Close()); err != nil {
		return fmt.Errorf("write %s: %w", Name, err)
	}
	now, err := Read(dir)
	if err != nil {
		return err
	}
	if (now == nil) != (before == nil) || !bytes.Equal(now, before) {
		return ErrChanged
	}
	if err := os.Rename(tmp.Name(), name); err != nil {
		return fmt.Errorf("write %s: %w", Name, err)
	}
	return nil
}

// Update reads, edits and writes the file, again from the start when somebody
// else wrote it meanwhile. An edit that changes nothing writes nothing.
func Update(dir string, edit func(text []byte) ([]byte, error)) (changed bool, err error) {
	for range 5 {
		before, err := Read(dir)
		if err != nil {
			return false, err
		}
		after, err := edit(before)
		if err != nil || (before != nil && bytes.Equal(before, after)) {
			return false, err
		}
		if err = Write(dir, before, after); !errors.Is(err, ErrChanged) {
			return err == nil, err
		}
	}
	return false, ErrChanged
}
