package mcp

import (
	"errors"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"cachebro/store/leaf/gitdir"
	"cachebro/store/undo/displace"
)

// open reads the file rel through the project's own path, to write it. The caller holds the path's lock, and closes
// the Root of the result.
func (s *Server) open(rel string) (*displace.File, error) {
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
	f := &displace.File{Root: root, Path: target}
	if inGit(root, rel) || inGit(root, target) {
		root.Close()
		return nil, badInput(quote(rel)+" belongs to git", "git's own commands change its directory")
	}
	f.Info, err = root.Stat(target)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f, nil
	case err != nil:
		root.Close()
		return nil, fileError(rel, err)
	}
	f.Exists = true
	err = regular(rel, f.Info)
	if err == nil {
		f.Content, err = readAll(root, target)
	}
	// A rename over a read-only file would succeed if the directory can be written.
	if denied := unix.Access(path.Join(s.dir(), target), unix.W_OK); err == nil && denied != nil {
		err = fileError(rel, denied)
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return f, nil
}

// inGit reports whether a path is a git directory or in one. Files there must not be written,
// because the next git command would run hooks, and programs that settings name.
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

// lockFile locks a file, under any of its names, against our other writers.
func (s *Server) lockFile(rel string) (unlock func()) {
	if target, err := s.target(rel); err == nil {
		rel = target
	}
	return s.locks.lock(rel)
}
