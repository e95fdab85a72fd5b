package displace

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"syscall"
)

// File is a regular file of the project that is about to be changed.
type File struct {
	Root    *os.Root
	Path    string // relative to Root, symlinks resolved
	Exists  bool
	Content []byte
	Info    fs.FileInfo // stat when Content was read
}

// Put replaces the content of the file. It writes a temporary file in the same directory and
// renames it over the file, so that no process sees a partial content. Mode, owner and extended
// attributes are preserved; set-id bits are cleared, as by write(2). Put returns ErrMeanwhile if
// the file has changed since Content was read.
//
// Put writes in place if a rename would change more than the content, because the file has other names
// or its owner cannot be set. It also writes in place if another process has the file open for writing. The
// store has the old content in any case.
func (f *File) Put(content []byte) error {
	var mode fs.FileMode // zero for a new file, whose mode the umask determines
	if f.Exists {
		// The author of the new content does not have the rights of the file's owner.
		mode = f.Info.Mode() &^ (fs.ModeSetuid | fs.ModeSetgid)
	} else if err := f.Root.MkdirAll(path.Dir(f.Path), 0o777); err != nil {
		return err
	}
	if st, ok := f.stat(); ok && st.Nlink > 1 {
		return f.overwrite(content, mode)
	}
	var held *Held
	if f.Exists {
		h, open, err := f.lease()
		if open {
			return f.overwrite(content, mode)
		}
		if err != nil {
			return err
		}
		held = h
	}
	replaced, err := f.putBeside(held, content, mode)
	if err == nil && !replaced {
		return f.overwrite(content, mode)
	}
	return err
}

// putBeside does the work of Put by a rename. It returns false if the owner or the extended
// attributes cannot be copied.
func (f *File) putBeside(held *Held, content []byte, mode fs.FileMode) (bool, error) {
	tmp, err := f.writeTemporary(content, mode)
	same := false
	if err == nil {
		same, err = f.dress(tmp, mode)
	}
	if err == nil && same {
		return true, f.replace(held, tmp)
	}
	if tmp != "" {
		_ = f.Root.Remove(tmp)
	}
	if held != nil {
		held.Release()
	}
	if errors.Is(err, errAttrs) {
		err = nil
	}
	return false, err
}

func (f *File) stat() (*syscall.Stat_t, bool) {
	if !f.Exists {
		return nil, false
	}
	st, ok := f.Info.Sys().(*syscall.Stat_t)
	return st, ok
}

// writeTemporary writes content to a new file in the same directory. The new name begins with the
// file's name, as those of editors' temporary files do. Apart from write permission for the owner,
// the new file has no permission that the file lacks.
func (f *File) writeTemporary(content []byte, mode fs.FileMode) (tmp string, err error) {
	perm := fs.FileMode(0o666)
	if f.Exists {
		perm = mode.Perm() | 0o200
	}
	dir, base := path.Split(f.Path)
	if len(base) > 200 { // NAME_MAX is 255
		base = base[:200]
	}
	var w *os.File
	for try := 0; ; try++ {
		tmp = dir + base + ".cachebro-" + fmt.Sprintf("%08x", rand.Uint32())
		w, err = f.Root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrExist) || try == 10 {
			return "", err
		}
	}
	_, err = w.Write(content)
	if err == nil && f.Exists && !f.copyAttrs(w) {
		err = errAttrs
	}
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = f.Root.Remove(tmp)
	}
	return tmp, err
}

// errAttrs means that the file's extended attributes cannot be copied to another file.
var errAttrs = errors.New("extended attributes cannot be copied")

func (f *File) copyAttrs(w *os.File) bool {
	src, err := f.Root.Open(f.Path)
	if err != nil {
		return true // the file is not readable, so its attributes are not either
	}
	defer src.Close()
	return copyXattrs(w, src)
}

// dress sets the owner and mode of tmp. It runs after the last close, so that the overlay records
// one content and then at most a change of mode. same is false if the owner cannot be set.
func (f *File) dress(tmp string, mode fs.FileMode) (same bool, err error) {
	fi, err := f.Root.Stat(tmp)
	if err != nil {
		return false, err
	}
	if old, ok := f.stat(); ok {
		if now, ok := fi.Sys().(*syscall.Stat_t); ok && (old.Uid != now.Uid || old.Gid != now.Gid) {
			if f.Root.Chown(tmp, int(old.Uid), int(old.Gid)) != nil {
				return false, nil
			}
			fi, err = f.Root.Stat(tmp) // again, because chown clears the set-id bits
			if err != nil {
				return false, err
			}
		}
	}
	if !f.Exists || fi.Mode()&modeBits == mode&modeBits {
		return true, nil
	}
	return true, f.Root.Chmod(tmp, mode&modeBits)
}

const modeBits = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

func (f *File) overwrite(content []byte, mode fs.FileMode) error {
	w, err := f.Root.OpenFile(f.Path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	fi, err := w.Stat()
	if err == nil && f.Info != nil && !unchanged(fi, f.Info) {
		err = ErrMeanwhile
	}
	if err == nil && f.Info != nil && f.Info.Mode()&modeBits != mode&modeBits {
		err = w.Chmod(mode & modeBits) // first, so that the new content never has set-id bits
	}
	if err == nil {
		err = w.Truncate(0)
	}
	if err == nil {
		_, err = w.Write(content) // appended, so that data that another process appends at this moment is not lost
	}
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	return err
}
