package capture

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"cachebro/fusefs"
)

// openRoot opens the source again and returns it as an os.Root, or nil if dir is nil.
func openRoot(dir *os.File) *os.Root {
	if dir == nil {
		return nil
	}
	// The path of the directory may lead to the mount, so the root is opened through the
	// descriptor.
	root, err := os.OpenRoot(fmt.Sprintf("%s/%d", ownFDs, dir.Fd()))
	if err != nil {
		return nil
	}
	return root
}

// openFile opens a file for reading.
func openFile(f fusefs.File) (*os.File, error) {
	fd, err := f.Open()
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Path()), nil
}

// open opens the file of a job. Workers do not hold the inode's lock, so open retries while a name
// is changing. If the overlay has ended or has forgotten the inode, open looks for the file in the
// source.
func (c *copies) open(j *job) (*os.File, error) {
	for try := 0; ; try++ {
		fd, err := openFile(j.f)
		if err == nil {
			return fd, nil
		}
		if !errors.Is(err, syscall.ESTALE) && !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.EBADF) {
			return nil, err
		}
		if fd := c.openByName(j); fd != nil {
			return fd, nil
		}
		if try == 3 {
			return nil, err
		}
		time.Sleep(time.Millisecond << (2 * try))
	}
}

// openByName opens the file under its present or recorded name, if it is still the file that was
// closed.
func (c *copies) openByName(j *job) *os.File {
	if c.root == nil {
		return nil
	}
	names := []string{j.f.Path(), j.rec.Path2, j.rec.Path}
	for i, name := range names {
		if name == "" || i > 0 && name == names[i-1] {
			continue
		}
		const flags = os.O_RDONLY | syscall.O_NOFOLLOW | syscall.O_NONBLOCK
		fd, err := c.root.OpenFile(name, flags|noAtime, 0)
		if errors.Is(err, syscall.EPERM) { // only the owner may read without changing the access time
			fd, err = c.root.OpenFile(name, flags, 0)
		}
		if err != nil {
			continue
		}
		var st syscall.Stat_t
		if err := syscall.Fstat(int(fd.Fd()), &st); err == nil && uint64(st.Dev) == j.rec.Stat.Dev && st.Ino == j.rec.Stat.Ino {
			return fd
		}
		fd.Close()
	}
	return nil
}
