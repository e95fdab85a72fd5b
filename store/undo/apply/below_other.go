//go:build !linux

package apply

import (
	"io/fs"
	"os"
)

// openBelow fails. On this system, plans are carried out only in projects, and a plan makes their
// directories readable first.
func openBelow(_ *os.Root, dir string) (*os.Root, fs.FileInfo, error) {
	return nil, nil, &fs.PathError{Op: "openat", Path: dir, Err: fs.ErrPermission}
}
