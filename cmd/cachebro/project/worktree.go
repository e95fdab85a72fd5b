package project

import (
	"os"
	"path/filepath"
	"strings"
)

// Top returns the top level of the git work tree that dir belongs to, as `git
// rev-parse --show-toplevel` does; ok is false outside of any. dir is absolute.
// Inside a .git directory there is no work tree.
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

// isGit: a repository, or the file with which a linked work tree or a submodule
// points at its own.
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

// Within reports whether path is dir or lies below it. Both are absolute and
// clean; only the text is compared.
func Within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir) && path[len(dir)] == '/'
}

// Rel is path relative to dir, "" for dir itself. Within(path, dir) holds.
func Rel(path, dir string) string {
	if path == dir {
		return ""
	}
	return strings.TrimPrefix(strings.TrimPrefix(path, dir), "/")
}
