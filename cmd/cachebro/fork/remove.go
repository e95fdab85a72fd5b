package fork

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// removeAll deletes a directory. It also deletes read-only directories inside, and retries if a
// process that is about to end still makes files there.
func removeAll(dir string) error {
	err := os.RemoveAll(dir)
	for pause := 5 * time.Millisecond; errors.Is(err, syscall.ENOTEMPTY) && pause < 2*time.Second; pause *= 2 {
		time.Sleep(pause)
		err = os.RemoveAll(dir)
	}
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(p, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}
