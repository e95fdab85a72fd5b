package gitdir

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Kind determines how a file of a git directory is saved and restored.
type Kind uint8

// The kinds. Files of kind Nothing are not saved.
const (
	Nothing Kind = iota // locks, temporary files, files that git can recreate
	State               // the state of the repository: HEAD, refs, index, config, hooks …
	Objects             // objects and packs, which never change
)

// Split finds the git directory that contains a slash-separated path of a project. It is the ".git"
// of a work tree, or a submodule's directory below its "modules". rest is the path relative to that
// directory, "" for the directory itself. Names that only other systems treat as ".git", such as
// ".GIT", do not count.
func Split(p string) (dir, rest string, ok bool) {
	end := -1
	for at := 0; ; {
		i := strings.Index(p[at:], ".git")
		if i < 0 {
			return "", "", false
		}
		i += at
		at = i + len(".git")
		if (i == 0 || p[i-1] == '/') && (at == len(p) || p[at] == '/') {
			end = at
			break
		}
	}
	if end == len(p) {
		return p, "", true
	}
	dir, rest = p[:end], p[end+1:]
	for strings.HasPrefix(rest, "modules/") {
		n := moduleEnd(rest)
		if n == 0 {
			break
		}
		dir, rest = dir+"/"+rest[:n], strings.TrimPrefix(rest[n:], "/")
	}
	return dir, rest, true
}

// moduleEnd returns the end of the submodule's name in rest, which begins with "modules/". A
// submodule's name may contain slashes. It ends before a component that git uses at the top of a
// git directory, such as "refs". Only its first component may itself be such a word. moduleEnd
// returns 0 if it finds no end.
func moduleEnd(rest string) int {
	at := len("modules/")
	for first := true; at < len(rest); first = false {
		part, _, _ := strings.Cut(rest[at:], "/")
		if !first && inEveryGitDir(part) {
			return at - 1
		}
		at += len(part) + 1
	}
	return 0
}

// inEveryGitDir reports whether part is a name that git itself uses at the top of a git directory.
func inEveryGitDir(part string) bool {
	switch part {
	case "HEAD", "config", "index", "refs", "logs", "objects", "packed-refs", "hooks", "info", "modules", "worktrees", "description", "branches",
		"ORIG_HEAD", "FETCH_HEAD", "COMMIT_EDITMSG", "HEAD.lock", "config.lock", "index.lock", "packed-refs.lock", "rebase-merge", "rebase-apply":
		return true
	}
	return false
}

// KindOf returns the kind of a file, given its path in the git directory.
func KindOf(rest string) Kind {
	base := rest[strings.LastIndexByte(rest, '/')+1:]
	if below, ok := strings.CutPrefix(rest, "objects/"); ok {
		switch {
		case rest == "objects/info/alternates":
			return State
		case strings.HasPrefix(below, "info/"), strings.HasPrefix(base, "tmp_"), strings.HasPrefix(base, ".tmp"), strings.HasSuffix(base, ".lock"),
			strings.HasPrefix(base, "multi-pack-index"), strings.HasPrefix(below, "tmp_objdir"), strings.HasPrefix(below, "incoming-"):
			return Nothing
		case strings.HasPrefix(below, "pack/"), len(below) >= 41 && below[2] == '/':
			return Objects
		}
		return Nothing
	}
	switch {
	case rest == "", strings.HasSuffix(base, ".lock"), strings.HasPrefix(base, "tmp_"), strings.HasPrefix(base, ".tmp-"), strings.HasSuffix(base, ".swp"):
		return Nothing
	case rest == "COMMIT_EDITMSG", rest == "FETCH_HEAD", rest == "gc.pid", rest == "gc.log", strings.HasPrefix(rest, "index.stash"), strings.HasPrefix(rest, "fsmonitor--daemon"):
		return Nothing
	case strings.HasPrefix(base, "next-index-"), strings.HasPrefix(rest, "sharedindex.") && strings.Contains(base, "_"):
		return Nothing
	}
	return State
}

// KeptObjects returns the path of the directory in which the lost objects of the git directory dir
// are saved, in git's own format. The path is relative to the project's directory of saved copies
// (wire.GitDir).
func KeptObjects(dir string) string {
	h := sha256.Sum256([]byte(dir))
	return "objects/" + hex.EncodeToString(h[:6])
}

// KeptFile returns the path, relative to the same directory, of a saved copy with the given name.
// Such copies are of files that are not objects.
func KeptFile(name string) string { return "files/" + name[len(name)-1:] + "/" + name }
