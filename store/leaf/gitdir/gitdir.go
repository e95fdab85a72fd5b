// Package gitdir recognises paths that belong to git itself. Git's directories hold programs and
// settings that the next git command runs. So nothing may be written there merely because a
// history, a message or a repository contains such a path. Callers check a path before they write
// to it or trust it.
package gitdir

import (
	"cmp"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"unicode"
)

// Outside returns the git directory to which a work tree's ".git" file or link points, if that
// directory is outside the work tree, as for linked worktrees and separate git directories.
// Otherwise it returns "".
func Outside(tree string) string {
	at := gitFileTarget(tree)
	if _, in := below(tree, at); in {
		return ""
	}
	return at
}

// SeparateGitDir returns the git directory of the work tree that contains tree, if Split does not
// find it because it is outside tree or has a name other than ".git". Otherwise it returns "".
// inside reports whether the git directory is in tree.
func SeparateGitDir(tree string) (dir string, inside bool) {
	if _, err := os.Lstat(filepath.Join(tree, ".git")); err != nil {
		up := filepath.Dir(tree)
		for ; up != filepath.Dir(up); up = filepath.Dir(up) {
			if _, err := os.Lstat(filepath.Join(up, ".git")); err == nil {
				return cmp.Or(gitFileTarget(up), filepath.Join(up, ".git")), false
			}
		}
		return "", false
	}
	at := gitFileTarget(tree)
	rel, in := below(tree, at)
	if _, _, ok := Split(filepath.ToSlash(rel)); in && ok {
		return "", false
	}
	return at, in
}

// gitFileTarget returns the path to which a work tree's ".git" file or link points, or "".
func gitFileTarget(tree string) string {
	name := filepath.Join(tree, ".git")
	at, err := os.Readlink(name)
	if err != nil {
		b, _ := os.ReadFile(name) // fails for a directory, or without a repository
		ok := false
		at, ok = strings.CutPrefix(strings.TrimRight(string(b), "\r\n"), "gitdir: ")
		if !ok || at == "" {
			return ""
		}
	}
	if !filepath.IsAbs(at) {
		at = filepath.Join(tree, at)
	}
	return filepath.Clean(at)
}

// below returns the path of at relative to dir, or false if at is not in dir.
func below(dir, at string) (string, bool) {
	rel, err := filepath.Rel(dir, at)
	return rel, err == nil && filepath.IsLocal(rel)
}

// Command returns a git command that examines a repository. It runs no program from the
// repository's configuration, such as a monitor, hook, filter or transport.
func Command(ctx context.Context, dir string, args ...string) *exec.Cmd {
	quiet := []string{"-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "protocol.allow=never", "--no-optional-locks", "--no-pager", "-C", dir}
	return exec.CommandContext(ctx, "git", append(quiet, args...)...)
}

// Name reports whether any file system treats a name as ".git". Some ignore case, invisible
// characters or trailing characters, or have short names.
func Name(part string) bool {
	if part == ".git" {
		return true
	}
	if len(part) < 4 || part[0] < 0x80 && strings.IndexByte(".gG", part[0]) < 0 {
		return false
	}
	part = strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) { // HFS+ ignores them
			return -1
		}
		return unicode.ToLower(r)
	}, part)
	part, _, _ = strings.Cut(part, ":") // NTFS: a stream of the same file
	part = strings.TrimRight(part, ". ")
	return part == ".git" || strings.HasPrefix(part, "git~") && strings.Trim(part[4:], "0123456789") == "" && len(part) > 4
}

// In reports whether Name is true for a part of a slash-separated path.
func In(path string) bool {
	for part := range strings.SplitSeq(path, "/") {
		if Name(part) {
			return true
		}
	}
	return false
}

// IsID reports whether a text is the complete name of an object.
func IsID(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}

// Is reports whether git would treat a directory as a git directory: a bare repository, one to
// which a ".git" file points, or that of a linked worktree. lstat examines a name in the directory.
func Is(lstat func(name string) (fs.FileInfo, error)) bool {
	if _, err := lstat("HEAD"); err != nil {
		return false
	}
	dir := func(name string) bool {
		fi, err := lstat(name)
		return err == nil && (fi.IsDir() || fi.Mode()&fs.ModeSymlink != 0)
	}
	if _, err := lstat("commondir"); err == nil {
		return true
	}
	return dir("objects") && dir("refs")
}
