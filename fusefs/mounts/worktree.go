package mounts

import (
	"os"
	"path/filepath"
	"strings"
)

// Top returns the top level of the git work tree that contains dir, like `git rev-parse
// --show-toplevel`. dir must be absolute. ok is false if dir is in no work tree. A .git directory
// and its subtree belong to no work tree.
func Top(dir string) (top string, ok bool) {
	for d := filepath.Clean(dir); ; d = filepath.Dir(d) {
		if filepath.Base(d) == ".git" {
			return "", false
		}
		if isGit(filepath.Join(d, ".git")) {
			return d, true
		}
		if d == filepath.Dir(d) {
			return "", false
		}
	}
}

// isGit reports whether path is a repository, or the file with which a linked work tree or a
// submodule refers to its repository.
func isGit(path string) bool {
	fi, err := os.Stat(path)
	if err != nil {
		return false
	}
	if fi.IsDir() {
		_, err := os.Lstat(filepath.Join(path, "HEAD"))
		return err == nil
	}
	b, err := os.ReadFile(path)
	return err == nil && strings.HasPrefix(string(b), "gitdir:")
}

// commonDir returns the repository of the work tree root, without symlinks, like `git rev-parse
// --git-common-dir`. It returns "" if there is no repository.
func commonDir(root string) string {
	dir := filepath.Join(root, ".git")
	if b, err := os.ReadFile(dir); err == nil { // a linked work tree or a submodule
		to, ok := strings.CutPrefix(strings.TrimSpace(string(b)), "gitdir:")
		if !ok {
			return ""
		}
		dir = resolveFrom(root, strings.TrimSpace(to))
		if b, err := os.ReadFile(filepath.Join(dir, "commondir")); err == nil {
			dir = resolveFrom(dir, strings.TrimSpace(string(b)))
		}
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil || !isGit(real) {
		return ""
	}
	return real
}

func resolveFrom(dir, p string) string {
	if filepath.IsAbs(p) {
		return filepath.Clean(p)
	}
	return filepath.Join(dir, p)
}

// Within reports whether path is dir or in its subtree. Both must be absolute and clean, because
// only the strings are compared.
func Within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir) && path[len(dir)] == '/'
}

// Rel returns path relative to dir, or "" for dir itself. Within(path, dir) must hold.
func Rel(path, dir string) string {
	if path == dir {
		return ""
	}
	return strings.TrimPrefix(strings.TrimPrefix(path, dir), "/")
}
