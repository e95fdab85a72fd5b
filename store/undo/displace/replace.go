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

// File is a regular file of the project as it is about to be changed.
type File struct {
	Root    *os.Root
	Path    string // below Root, symlinks followed
	Exists  bool
	Content []byte
	Info    fs.FileInfo // as it was when Content was read
}

// Put makes content the content of the file. It writes beside the file and renames
// over it, so that nobody ever sees half of it, and keeps mode, owner and extended
// attributes; set-id bits go, as by a write(2). It writes in place where a rename would
// change what the file is (it has other names, or an owner that we cannot give away to)
// or would cut off somebody who has it open for writing; the store has the old content
// in either case. ErrMeanwhile: it is not what Content was read from any more.
func (f *File) Put(content []byte) error {
	var mode fs.FileMode // of a new file: the umask's
	if f.Exists {
		// Who wrote this is not who was trusted with the rights of the file's owner.
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

// putBeside is Put by a rename; false: that would change what the file is.
func (f *File) putBeside(held *Held, content []byte, mode fs.FileMode) (bool, error) {
	tmp, err := f.beside(content, mode)
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

// beside writes content to a new file in the same directory. Its name begins
// with the file's, by which editors' temporary files are known. No bit of the
// mode is ever wider than the file's own.
func (f *File) beside(content []byte, mode fs.FileMode) (tmp string, err error) {
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

// errAttrs: another file cannot have the extended attributes of this one.
var errAttrs = errors.New("extended attributes cannot be copied")

func (f *File) copyAttrs(w *os.File) bool {
	src, err := f.Root.Open(f.Path)
	if err != nil {
		return true // not readable for us, so neither are they
	}
	defer src.Close()
	return copyXattrs(w, src)
}

// dress gives tmp the owner and mode that it needs. It runs after the last close, so
// that the overlay has one content to keep and then, at most, a change of mode. same
// is false where the owner cannot be given.
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
			fi, err = f.Root.Stat(tmp)
			if err != nil { // chown clears the set-id bits
				return false, err
			}
		}
	}
	if !f.Exists || fi.Mode()&modeBits == mode&modeBits {
		return true, nil
	}
	return true, f.Root.Chmod(tmp, mode&modeBits)
}

// modeBits are what chmod can set.
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
		err = w.Chmod(mode & modeBits) // first, because of the set-id bits
	}
	if err == nil {
		err = w.Truncate(0)
	}
	if err == nil {
		_, err = w.Write(content) // at the end: who appends at this moment loses nothing
	}
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	return err
}
