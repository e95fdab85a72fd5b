package clients

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Users often keep their configuration in a repository and link to it, so links to a user's own
// files are followed. A project's files come from the project's author, whose links could lead to
// any file that the user may write.

var (
	errNoFile = errors.New("it is not a regular file")
	errLinked = errors.New("its path has a symlink, and a project's own files are not written through one")
)

// place opens the directory of a file and returns the file's name in it. If create is set, it makes
// missing directories. The path of a project's file must not contain a symbolic link.
func (c *Change) place(create bool) (*os.Root, string, error) {
	base, rel := filepath.Dir(c.target), filepath.Base(c.target)
	if c.within != "" {
		base = c.within
		var err error
		rel, err = filepath.Rel(base, c.target)
		if err != nil || !filepath.IsLocal(rel) {
			return nil, "", fmt.Errorf("it is not inside %s", base)
		}
	} else if create {
		if err := os.MkdirAll(base, 0o755); err != nil {
			return nil, "", err
		}
	}
	dir, err := os.OpenRoot(base)
	if err != nil {
		return nil, "", err
	}
	parts := strings.Split(rel, string(filepath.Separator))
	for _, part := range parts[:len(parts)-1] {
		next, err := step(dir, part, create)
		dir.Close()
		if err != nil {
			return nil, "", err
		}
		dir = next
	}
	return dir, parts[len(parts)-1], nil
}

// step opens the subdirectory of dir with the given name, which must not be a symbolic link.
func step(dir *os.Root, name string, create bool) (*os.Root, error) {
	if create {
		if err := dir.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	fi, err := dir.Lstat(name)
	switch {
	case err != nil:
		return nil, err
	case fi.Mode()&fs.ModeSymlink != 0:
		return nil, errLinked
	case !fi.IsDir():
		return nil, fmt.Errorf("%q is not a directory", name)
	}
	next, err := dir.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if is, err := next.Lstat("."); err != nil || !os.SameFile(fi, is) {
		next.Close()
		return nil, errors.Join(err, errLinked)
	}
	return next, nil
}

// readIn reads a small regular file. It does not wait for a FIFO.
func readIn(dir *os.Root, name string) ([]byte, fs.FileInfo, error) {
	if fi, err := dir.Lstat(name); err == nil && fi.Mode()&fs.ModeSymlink != 0 {
		return nil, nil, errLinked
	}
	f, err := dir.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	return readRegular(f)
}

func readRegular(f *os.File) ([]byte, fs.FileInfo, error) {
	fi, err := f.Stat()
	switch {
	case err != nil:
		return nil, nil, err
	case !fi.Mode().IsRegular():
		return nil, nil, errNoFile
	case fi.Size() > maxConfig:
		return nil, nil, fmt.Errorf("it is larger than %d bytes", maxConfig)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxConfig))
	return b, fi, err
}

// ReadConfig is os.ReadFile for a small file that another user may have made. It does not wait for
// a FIFO.
func ReadConfig(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, _, err := readRegular(f)
	return b, err
}

// replaceIn writes a new file in the same directory and renames it over the old one.
func replaceIn(dir *os.Root, name string, b []byte, mode fs.FileMode) error {
	tmp := "." + name + ".cachebro-" + rand.Text()[:10]
	f, err := dir.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer dir.Remove(tmp) // fails after the rename
	_, err = f.Write(b)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return dir.Rename(tmp, name)
}
