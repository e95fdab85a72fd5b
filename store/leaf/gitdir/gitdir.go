// Package gitdir tells which paths belong to git itself. Git's directories hold
// programs and settings that the next git command runs, so nothing is written there
// because a history, a message or a repository says so. Callers ask before they write
// or believe a path; the answer depends on the name and on the directory's contents.
// The package is a leaf.
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

// Outside is the git directory that the ".git" file or link of a work tree names, where
// that is not in the work tree itself: of a further worktree, or made apart. "" else.
func Outside(tree string) string {
	at := named(tree)
	if _, in := below(tree, at); in {
		return ""
	}
	return at
}

// Apart is the git directory of a work tree, or of the one that it is a part of, where it
// is none of those that Split finds: it is outside of the tree, or inside by another name
// than ".git". "" else.
func Apart(tree string) (dir string, inside bool) {
	if _, err := os.Lstat(filepath.Join(tree, ".git")); err != nil {
		up := filepath.Dir(tree)
		for ; up != filepath.Dir(up); up = filepath.Dir(up) {
			if _, err := os.Lstat(filepath.Join(up, ".git")); err == nil {
				return cmp.Or(named(up), filepath.Join(up, ".git")), false
			}
		}
		return "", false
	}
	at := named(tree)
	rel, in := below(tree, at)
	if _, _, ok := Split(filepath.ToSlash(rel)); in && ok {
		return "", false
	}
	return at, in
}

// named is the place that the ".git" file or link of a work tree names. "" else.
func named(tree string) string {
	name := filepath.Join(tree, ".git")
	at, err := os.Readlink(name)
	if err != nil {
		b, _ := os.ReadFile(name) // a directory, or no repository
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

// below is the path of something in a directory; false: it is not there.
func below(dir, at string) (string, bool) {
	rel, err := filepath.Rel(dir, at)
	return rel, err == nil && filepath.IsLocal(rel)
}

// Command is a git command that looks at a repository and runs nothing that its
// configuration names: no monitor, no hook, no filter, no transport.
func Command(ctx context.Context, dir string, args ...string) *exec.Cmd {
	quiet := []string{"-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "protocol.allow=never", "--no-optional-locks", "--no-pager", "-C", dir}
	return exec.CommandContext(ctx, "git", append(quiet, args...)...)
}

// Name reports whether some file system takes one part of a path for ".git": one
// that ignores case, or invisible characters, or what follows the name, or that gives
// short names.
func Name(part string) bool {
	if part == ".git" {
		return true
	}
	if len(part) < 4 || part[0] != '.' && part[0] != 'g' && part[0] != 'G' && part[0] < 0x80 {
		return false
	}
	part = strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) { // HFS+ does not see them
			return -1
		}
		return unicode.ToLower(r)
	}, part)
	part, _, _ = strings.Cut(part, ":") // NTFS: another stream of the same
	part = strings.TrimRight(part, ". ")
	return part == ".git" || strings.HasPrefix(part, "git~") && strings.Trim(part[4:], "0123456789") == "" && len(part) > 4
}

// In reports whether a slash-separated path has such a part.
func In(path string) bool {
	for part := range strings.SplitSeq(path, "/") {
		if Name(part) {
			return true
		}
	}
	return false
}

// Is reports whether a directory looks to git like one of its own: a bare repository,
// one that a ".git" file points to, or what belongs to a further worktree. lstat
// looks at a name in it.
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
