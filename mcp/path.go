package mcp

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"cachebro/store/wire"
)

// resolve makes a client's path relative to the project: slash-separated, cleaned, "" for the root.
// An absolute path may begin with the project's root, its mountpoint, an alias, or another path to
// one of these. resolve follows no symlink inside the project. The code that opens the path refuses
// links that lead out.
func (s *Server) resolve(p string) (string, error) {
	switch {
	case p == "":
		return "", badInput("path is empty", "give a path like src/main.go")
	case strings.IndexByte(p, 0) >= 0:
		return "", badInput("path contains a NUL byte", "")
	case len(p) > 4096:
		return "", badInput("path is longer than 4096 bytes", "")
	}
	p = expand(p)
	for part := range strings.SplitSeq(p, "/") {
		if part == ".." {
			return "", &wire.Error{Code: wire.ErrOutside.Code, Message: "path " + quote(p) + " contains ..", Hint: "give a path relative to the project " + s.opt.Root + ", or absolute inside it"}
		}
	}
	if !filepath.IsAbs(p) {
		return dropDot(filepath.Clean(p)), nil
	}
	p = filepath.Clean(p)
	for _, base := range append([]string{s.opt.Root, s.opt.Mountpoint}, s.opt.Aliases...) {
		if rel, ok := relativeTo(p, base); ok {
			return rel, nil
		}
	}
	// The path may reach the project through a symlink. So compare its ancestors with the root and
	// with the mountpoint, whose inode numbers differ.
	var roots []os.FileInfo
	for _, base := range []string{s.opt.Root, s.opt.Mountpoint} {
		if fi, err := os.Stat(base); base != "" && err == nil {
			roots = append(roots, fi)
		}
	}
	for dir := filepath.Dir(p); ; dir = filepath.Dir(dir) {
		if fi, err := os.Stat(dir); err == nil {
			for _, r := range roots {
				if os.SameFile(fi, r) {
					rel, _ := relativeTo(p, dir)
					return rel, nil
				}
			}
		}
		if dir == filepath.Dir(dir) {
			return "", s.outside(p)
		}
	}
}

func (s *Server) outside(p string) error {
	return &wire.Error{Code: wire.ErrOutside.Code, Message: "path " + quote(p) + " is not inside the project " + s.opt.Root,
		Hint: "give a path relative to the project, or absolute inside it"}
}

func relativeTo(p, base string) (string, bool) {
	if base == "" {
		return "", false
	}
	if p == base {
		return "", true
	}
	if base != "/" {
		base += "/"
	}
	rel, ok := strings.CutPrefix(p, base)
	return rel, ok
}

func dropDot(p string) string {
	if p == "." {
		return ""
	}
	return p
}

// dir returns the directory through which the project is accessed: the mountpoint if it is mounted
// there, otherwise the root, which is also where an in-place mount is. dir looks each time, because
// mounts come and go.
func (s *Server) dir() string {
	if m := s.opt.Mountpoint; m != "" && m != s.opt.Root && isMount(m) {
		return m
	}
	return s.opt.Root
}

// isMount reports whether a directory is on another device than its parent, as a mountpoint is.
func isMount(dir string) bool {
	var at, up syscall.Stat_t
	if syscall.Stat(dir, &at) != nil || syscall.Lstat(filepath.Dir(dir), &up) != nil {
		return false
	}
	return at.Dev != up.Dev
}

// target follows symlinks in rel, including its last component, and returns the resulting path,
// which must lie in the project. The last component need not exist. The caller opens the result
// through an os.Root, which refuses a link that somebody put there in the meantime.
func (s *Server) target(rel string) (string, error) {
	base, err := filepath.EvalSymlinks(s.dir())
	if err != nil {
		return "", fileError("", err)
	}
	full := filepath.Join(base, rel)
	real, err := filepath.EvalSymlinks(full)
	if errors.Is(err, fs.ErrNotExist) {
		if _, lerr := os.Lstat(full); lerr == nil {
			return "", badInput(quote(rel)+" is a symlink whose target does not exist", "give the path of the target instead")
		}
		return s.newTarget(base, rel)
	}
	if err != nil {
		return "", fileError(rel, err)
	}
	out, ok := relativeTo(real, base)
	if !ok {
		return "", s.outside(rel)
	}
	return out, nil
}

// newTarget resolves a path that does not exist. Its deepest existing ancestor must lie in the
// project.
func (s *Server) newTarget(base, rel string) (string, error) {
	dir, rest := filepath.Dir(rel), filepath.Base(rel)
	for {
		real, err := filepath.EvalSymlinks(filepath.Join(base, dir))
		if err == nil {
			in, ok := relativeTo(real, base)
			if !ok {
				return "", s.outside(rel)
			}
			return filepath.Join(in, rest), nil
		}
		if !errors.Is(err, fs.ErrNotExist) || dir == "." {
			return "", fileError(rel, err)
		}
		if _, lerr := os.Lstat(filepath.Join(base, dir)); lerr == nil {
			return "", badInput(quote(dir)+" is a symlink whose target does not exist", "")
		}
		dir, rest = filepath.Dir(dir), filepath.Join(filepath.Base(dir), rest)
	}
}
