package mcp

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"

	"cachebro/store/gitdir"
	"cachebro/store/undo/displace"
)

// file is a regular file of the project as a tool is about to change it.
type file struct {
	root    *os.Root
	path    string // symlinks followed
	exists  bool
	content []byte
	info    fs.FileInfo
}

// open reads what is at rel now, through the project's own path. The caller
// closes it and holds the path's lock.
func (s *Server) open(rel string) (*file, error) {
	if rel == "" {
		return nil, isDir(rel)
	}
	target, err := s.target(rel)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(s.dir())
	if err != nil {
		return nil, fileError("", err)
	}
	f := &file{root: root, path: target}
	if inGit(root, rel) || inGit(root, target) {
		root.Close()
		return nil, badInput(quote(rel)+" belongs to git", "git's own commands change its directory")
	}
	f.info, err = root.Stat(target)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f, nil
	case err != nil:
		root.Close()
		return nil, fileError(rel, err)
	}
	f.exists = true
	if err = regular(rel, f.info); err == nil {
		f.content, err = readAll(root, target)
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return f, nil
}

// inGit: a path leads into a git directory, or names one: what stands there the next
// git command runs.
func inGit(root *os.Root, p string) bool {
	if gitdir.In(p) {
		return true
	}
	for dir := path.Dir(p); dir != "." && dir != "/"; dir = path.Dir(dir) {
		if gitdir.Is(func(name string) (fs.FileInfo, error) { return root.Lstat(dir + "/" + name) }) {
			return true
		}
	}
	return false
}

// lockFile orders writers of rel under whatever name.
func (s *Server) lockFile(rel string) (unlock func()) {
	if target, err := s.target(rel); err == nil {
		rel = target
	}
	return s.locks.lock(rel)
}

func (f *file) close() { f.root.Close() }

// put makes content the content of the file. It writes beside the file and renames
// over it, so that nobody ever sees half of it, and keeps mode, owner and extended
// attributes. It writes in place where a rename would change what the file is (it has
// other names, or an owner that we cannot give away to) or would cut off somebody who
// has it open for writing; the store has the old content in either case. mode 0 keeps
// the file's own, or the umask's for a new one; mtime 0 is now.
func (f *file) put(content []byte, mode fs.FileMode, mtime int64) error {
	if !f.exists {
		if err := f.root.MkdirAll(path.Dir(f.path), 0o777); err != nil {
			return err
		}
	} else if mode == 0 {
		// As a write(2) does: who wrote this is not who was trusted with the rights of
		// the file's owner.
		mode = f.info.Mode() &^ (fs.ModeSetuid | fs.ModeSetgid)
	}
	if st, ok := f.stat(); ok && st.Nlink > 1 {
		return f.overwrite(content, mode, mtime)
	}
	var held *displace.Held
	if f.exists {
		h, open, err := f.lease()
		if open {
			return f.overwrite(content, mode, mtime)
		}
		if err != nil {
			return err
		}
		held = h
	}
	replaced, err := f.putBeside(held, content, mode, mtime)
	if err == nil && !replaced {
		return f.overwrite(content, mode, mtime)
	}
	return err
}

// putBeside is put by a rename; false: that would change what the file is.
func (f *file) putBeside(held *displace.Held, content []byte, mode fs.FileMode, mtime int64) (bool, error) {
	tmp, err := f.beside(content, mode)
	same := false
	if err == nil {
		same, err = f.dress(tmp, mode)
	}
	if err == nil && same && mtime != 0 {
		t := time.Unix(0, mtime)
		err = f.root.Chtimes(tmp, t, t)
	}
	if err == nil && same {
		return true, f.replace(held, tmp)
	}
	if tmp != "" {
		_ = f.root.Remove(tmp)
	}
	if held != nil {
		held.Release()
	}
	if errors.Is(err, errAttrs) {
		err = nil
	}
	return false, err
}

func (f *file) stat() (*syscall.Stat_t, bool) {
	if !f.exists {
		return nil, false
	}
	st, ok := f.info.Sys().(*syscall.Stat_t)
	return st, ok
}

// beside writes content to a new file in the same directory. Its name begins
// with the file's, by which editors' temporary files are known. No bit of the
// mode is ever wider than the file's own.
func (f *file) beside(content []byte, mode fs.FileMode) (tmp string, err error) {
	perm := fs.FileMode(0o666)
	if f.exists || mode != 0 {
		perm = mode.Perm() | 0o200
	}
	dir, base := path.Split(f.path)
	if len(base) > 200 { // NAME_MAX is 255
		base = base[:200]
	}
	var w *os.File
	for try := 0; ; try++ {
		tmp = dir + base + ".cachebro-" + randomID()[:8]
		w, err = f.root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrExist) || try == 10 {
			return "", err
		}
	}
	_, err = w.Write(content)
	if err == nil && f.exists && !f.copyAttrs(w) {
		err = errAttrs
	}
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = f.root.Remove(tmp)
	}
	return tmp, err
}

// errAttrs: another file cannot have the extended attributes of this one.
var errAttrs = errors.New("extended attributes cannot be copied")

func (f *file) copyAttrs(w *os.File) bool {
	src, err := f.root.Open(f.path)
	if err != nil {
		return true // not readable for us, so neither are they
	}
	defer src.Close()
	return copyXattrs(w, src)
}

// dress gives tmp the owner and mode that it needs. It runs after the last close, so
// that the overlay has one content to keep and then, at most, a change of mode. same
// is false where the owner cannot be given.
func (f *file) dress(tmp string, mode fs.FileMode) (same bool, err error) {
	fi, err := f.root.Stat(tmp)
	if err != nil {
		return false, err
	}
	if old, ok := f.stat(); ok {
		if now, ok := fi.Sys().(*syscall.Stat_t); ok && (old.Uid != now.Uid || old.Gid != now.Gid) {
			if f.root.Chown(tmp, int(old.Uid), int(old.Gid)) != nil {
				return false, nil
			}
			if fi, err = f.root.Stat(tmp); err != nil { // chown clears the set-id bits
				return false, err
			}
		}
	}
	if !f.exists && mode == 0 || fi.Mode()&modeBits == mode&modeBits {
		return true, nil
	}
	return true, f.root.Chmod(tmp, mode&modeBits)
}

// modeBits are what chmod can set.
const modeBits = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

func (f *file) overwrite(content []byte, mode fs.FileMode, mtime int64) error {
	w, err := f.root.OpenFile(f.path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	fi, err := w.Stat()
	if err == nil && f.info != nil && !unchanged(fi, f.info) {
		err = errMeanwhile
	}
	if err == nil && f.info != nil && f.info.Mode()&modeBits != mode&modeBits {
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
	if err == nil && mtime != 0 {
		t := time.Unix(0, mtime)
		err = f.root.Chtimes(f.path, t, t)
	}
	return err
}
