package ignore

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// indexEvery is the shortest interval between two checks of git's index.
const indexEvery = time.Second

// repo is a git repository whose work tree is in the project, at least partly. It is immutable
// except for the index, which is read when a rule matches.
type repo struct {
	source  *source
	dir     string // top of its work tree, relative to the root
	prefix  string // path from the top of the work tree to the root, if the top is above the root
	gitDir  string // relative to the root, or absolute
	linked  bool   // a linked worktree
	exclude []pattern
	above   *dir // the directories from the top of the work tree to the root

	checked atomic.Int64 // when the index was last checked, ns
	index   atomic.Pointer[tracked]
	load    sync.Mutex // guards sig; held while the index is read
	sig     indexSig
}

// inside returns a path of the project relative to the repository's work tree.
func (r *repo) inside(p string) string {
	switch {
	case r == nil:
		return p
	case r.prefix != "":
		return r.prefix + "/" + p
	case r.dir != "":
		return p[len(r.dir)+1:]
	}
	return p
}

func (r *repo) has(p string, now time.Time) bool {
	ns := now.UnixNano()
	if at := r.checked.Load(); (ns-at >= int64(indexEvery) || ns < at) && r.load.TryLock() {
		if sig := r.look(); r.checked.Load() == 0 || sig != r.sig {
			r.index.Store(r.read())
			r.sig = sig
		}
		r.checked.Store(ns)
		r.load.Unlock()
	} else if at == 0 { // another goroutine is reading it for the first time
		r.load.Lock()
		//lint:ignore SA2001 waiting is the point
		r.load.Unlock()
	}
	return r.index.Load().has(r.inside(p))
}

// findRepo finds the repository whose top is dir, a directory of the project. For the root it also
// searches the ancestors, because the project may be a part of a work tree.
func (s *source) findRepo(dir string) *repo {
	if info := s.dotGit(dir); info != nil {
		return s.openRepo(&repo{source: s, dir: dir}, path.Join(dir, ".git"), info)
	}
	if dir != "" || s.abs == "" {
		return nil
	}
	for at := filepath.Dir(s.abs); ; at = filepath.Dir(at) {
		if info, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			prefix, err := filepath.Rel(at, s.abs)
			if err != nil {
				return nil
			}
			r := &repo{source: s, prefix: filepath.ToSlash(prefix)}
			r.above = s.readAbove(at, r.prefix)
			return s.openRepo(r, filepath.Join(at, ".git"), info)
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

// dotGit describes the .git of a directory if a repository's work tree begins there; otherwise it
// returns nil. A .git directory without a HEAD is not a repository. Sandboxes, for example, make an
// empty one around each command.
func (s *source) dotGit(dir string) os.FileInfo {
	info, err := s.root.Lstat(path.Join(dir, ".git"))
	if err != nil || info.IsDir() && !s.exists(path.Join(dir, ".git/HEAD")) {
		return nil
	}
	return info
}

// readAbove reads the ignore files of the directories from top, the top of a work tree, to the
// root's parent.
func (s *source) readAbove(top, prefix string) *dir {
	var d *dir
	at := top
	parts := strings.Split(prefix, "/")
	for i, name := range parts {
		d = &dir{up: d, top: i == 0, down: strings.Join(parts[i:], "/"), rules: parse(readOutside(filepath.Join(at, ".gitignore")))}
		at = filepath.Join(at, name)
	}
	return d
}

// openRepo opens the repository to which a .git belongs. In linked worktrees and submodules, .git
// is a file.
func (s *source) openRepo(r *repo, dotGit string, info os.FileInfo) *repo {
	r.gitDir = dotGit
	if !info.IsDir() {
		to, ok := strings.CutPrefix(strings.TrimSpace(string(s.read(dotGit))), "gitdir:")
		if !ok {
			return nil
		}
		to = strings.TrimSpace(to)
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(dotGit), to)
			if !filepath.IsAbs(to) && !filepath.IsLocal(to) { // the path leads out of the project
				to = filepath.Join(s.abs, to)
			}
		}
		r.gitDir = s.local(to)
	}
	common := r.gitDir
	if c := strings.TrimSpace(string(s.read(filepath.Join(r.gitDir, "commondir")))); c != "" {
		r.linked = true
		if !filepath.IsAbs(c) {
			c = filepath.Join(r.gitDir, c)
		}
		common = s.local(c)
	}
	r.exclude = parse(s.read(filepath.Join(common, "info/exclude")))
	return r
}

// indexSig detects a changed index without reading it.
type indexSig struct {
	size  int64
	mtime int64
	inode uint64
}

func (r *repo) look() indexSig {
	info, err := r.source.stat(filepath.Join(r.gitDir, "index"))
	if err != nil {
		return indexSig{}
	}
	return indexSig{size: info.Size(), mtime: info.ModTime().UnixNano(), inode: inodeOf(info)}
}

// read reads git's index. It returns nil if the index is missing or cannot be decoded. Files that a
// rule matches then count as ignored, and their content is still saved before it is destroyed.
func (r *repo) read() *tracked {
	f, err := r.source.open(filepath.Join(r.gitDir, "index"))
	if err != nil {
		return nil
	}
	defer f.Close()
	t, err := readIndex(readAll(f, 1<<30))
	if err != nil {
		return nil
	}
	return t
}
