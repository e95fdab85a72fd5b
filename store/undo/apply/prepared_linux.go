package apply

import (
	"io/fs"
	"os"

	"cachebro/store/leaf/event"
	"cachebro/store/leaf/loop"

	"golang.org/x/sys/unix"
)

// takesPrepared reports whether dir is the root of a mount to which files can be announced, see
// event.Prepared.
func takesPrepared(dir string) bool {
	_, err := unix.Getxattr(dir, event.Prepared, nil)
	return err == nil
}

// handOver announces to the mount the files that this thread will create in dir.
func handOver(dir *os.File, files []event.PreparedFile) error {
	b, err := event.EncodePrepared(files)
	if err != nil {
		return err
	}
	return unix.Fsetxattr(int(dir.Fd()), event.Prepared, b, 0)
}

// makeName creates a file that handOver has announced, in the directory root.
func makeName(d *places, root *os.Root, name string, perm uint32) error {
	dir, err := d.file(root)
	if err != nil {
		return err
	}
	if err := loop.Retry(func() error { return unix.Mknodat(int(dir.Fd()), name, unix.S_IFREG|perm, 0) }); err != nil {
		return &fs.PathError{Op: "mknod", Path: name, Err: err}
	}
	return nil
}
