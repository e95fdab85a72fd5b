package ignore

import (
	"io/fs"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Options configure a Matcher. The zero value is usable.
type Options struct {
	// ExcludesFile is the user's global ignore file (git's core.excludesFile), an absolute path
	// outside the project. If it is "" or missing, there are no global rules.
	ExcludesFile string
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Matcher classifies paths.
type Matcher struct {
	source *source
	opt    Options
	now    atomic.Pointer[snapshot]
	load   sync.Mutex // held while a snapshot is made, which reads files
}

// snapshot is immutable except for its cache.
type snapshot struct {
	source *source
	clock  func() time.Time
	repo   *repo // the repository of the root, or nil
	global []pattern
	dirs   *sync.Map // path → *dir

	// mu is held for reading while a directory's rules are read into dirs, and for writing while
	// rules are dropped. Otherwise outdated rules could be stored after a drop.
	mu sync.RWMutex
}

// dir holds the rules of one directory. It is immutable.
type dir struct {
	path           string
	down           string // for a directory above the root: the path from it to the root
	up             *dir
	class          Class // class of its entries
	excludedByUser bool  // excluded by a .cachebroignore, which overrides the index
	excludedByMark bool  // excluded because of a mark in it
	repo           *repo
	top            bool // top of a repository, so git's rules above it do not apply
	rules          []pattern
	excludeRules   []pattern
}

// Class returns the class of a slash-separated path relative to the root.
func (m *Matcher) Class(p string, isDir bool) Class {
	if p == "" {
		return Tracked
	}
	if underGit(p) {
		return Excluded
	}
	s := m.now.Load()
	if isDir {
		return s.dir(p).class
	}
	in := s.dir(path.Dir(p))
	c, own := s.classify(in, path.Base(p), p, false)
	if c != Tracked && !own && s.indexed(in, p) {
		return Tracked
	}
	return c
}

// Forbidden reports whether a .cachebroignore excludes a path.
func (m *Matcher) Forbidden(p string, isDir bool) bool {
	s := m.now.Load()
	_, own := s.classify(s.dir(path.Dir(p)), path.Base(p), p, isDir)
	return own
}

// Forced reports whether a file is tracked only because git's index has it, although a rule matches
// it.
func (m *Matcher) Forced(p string) bool {
	s := m.now.Load()
	in := s.dir(path.Dir(p))
	c, own := s.classify(in, path.Base(p), p, false)
	return c != Tracked && !own && s.indexed(in, p)
}

func (s *snapshot) indexed(in *dir, p string) bool {
	return in.repo != nil && in.repo.has(p, s.clock())
}

// Reload drops the rules that a changed file may affect (see IsRuleFile). They are read again when
// needed. Rules of other directories stay cached, because a large tree of packages has thousands of
// rule files. Reload returns the directories that were tracked and that the new rules exclude. It
// omits directories in the subtree of another one that it returns. mayReveal reports whether
// ignored files may be tracked now.
func (m *Matcher) Reload(p string) (nowExcluded []string, mayReveal bool) {
	if m.sameRepo(p) {
		return nil, false
	}
	candidates, mayReveal := m.mayBeExcluded(p), m.newRulesMayReveal(p)
	m.dropRules(p)
	m.now.Load().dir(decidesFor(p)) // read the rules before the file changes again; the next Reload compares them with the file
	for _, dir := range candidates {
		found := slices.ContainsFunc(nowExcluded, func(top string) bool { return strings.HasPrefix(dir, top+"/") })
		if !found && m.Class(dir, true) == Excluded {
			nowExcluded = append(nowExcluded, dir)
		}
	}
	return nowExcluded, mayReveal
}

// sameRepo reports whether p is a .git or a HEAD whose change has neither begun nor ended a
// repository: its directory still has no repository, or still has the one that it had.
func (m *Matcher) sameRepo(p string) bool {
	if base := path.Base(p); base != ".git" && base != "HEAD" {
		return false
	}
	top := decidesFor(p)
	d := m.now.Load().dir(top)
	had, has := d.begins(), m.source.dotGit(d.path) != nil
	return had == has && (!has || path.Base(p) == "HEAD")
}

// begins reports whether the work tree of a repository begins at the directory.
func (d *dir) begins() bool { return d.repo != nil && d.repo.prefix == "" && d.repo.dir == d.path }

// newRulesMayReveal compares the rule file p with the rules that were read from it before. Fewer
// matching patterns or more negated ones may turn ignored files into tracked ones. Files on the
// built-in list only distinguish excluded directories from ignored ones, or without a repository
// from tracked ones.
func (m *Matcher) newRulesMayReveal(p string) bool {
	s := m.now.Load()
	known, isKnown := s.dirs.Load(decidesFor(p))
	var old []pattern
	switch path.Base(p) {
	case "exclude":
		return s.dir(decidesFor(p)).repo != nil
	case ".git", "HEAD":
		return true
	case ".gitignore":
		if isKnown {
			old = known.(*dir).rules
		}
	case ".cachebroignore":
		if isKnown {
			old = known.(*dir).excludeRules
		}
	default:
		return s.dir(decidesFor(p)).repo == nil && !s.source.exists(p)
	}
	now := parse(s.source.file(p))
	if !isKnown {
		return true
	}
	isNegated := func(p pattern) bool { return p.negated }
	return !reflect.DeepEqual(old, now) && (len(old) > 0 || slices.ContainsFunc(now, isNegated))
}

// MoveMayReveal reports whether the rename of a directory may turn ignored files in it into tracked
// ones. That is possible if a rule that applied at the old path no longer applies, or if a negated
// rule applies only at the new path. Rules in the directory itself move with it.
func (m *Matcher) MoveMayReveal(from, to string) bool {
	s := m.now.Load()
	before, after := s.dir(path.Dir(from)), s.dir(path.Dir(to))
	if before.repo != after.repo {
		return true
	}
	return s.appliesOnlyTo(before, from, to, false) || s.appliesOnlyTo(after, to, from, true)
}

// appliesOnlyTo reports whether a rule may match names in the directory at p, which is in the
// directory in, but not if the directory is at other. negated selects the negated rules.
func (s *snapshot) appliesOnlyTo(in *dir, p, other string, negated bool) bool {
	for d := in; d != nil; d = d.up {
		above := d.path == "" || strings.HasPrefix(other, d.path+"/") // the rules apply to both paths
		rel := d.relative(p)
		for _, rules := range [][]pattern{d.rules, d.excludeRules} {
			if slices.ContainsFunc(rules, func(r pattern) bool { return r.negated == negated && (!above || r.mayMatchInside(rel)) }) {
				return true
			}
		}
	}
	shared := s.global
	if in.repo != nil {
		shared = slices.Concat(shared, in.repo.exclude)
	}
	rel := in.repo.inside(p)
	return slices.ContainsFunc(shared, func(r pattern) bool { return r.negated == negated && r.mayMatchInside(rel) })
}

// maxSearched bounds how many files and directories Reload looks at. 110,000 take 0.25 s.
const maxSearched = 200_000

// mayBeExcluded returns, sorted, the directories that were tracked before the rule file p changed
// and that it may now exclude.
func (m *Matcher) mayBeExcluded(p string) (dirs []string) {
	s := m.now.Load()
	top, byName := decidesFor(p), true
	switch path.Base(p) {
	case ".gitignore":
		if reflect.DeepEqual(s.dir(top).rules, parse(s.source.file(p))) {
			return nil
		}
	case "exclude", ".git", "HEAD":
	case ".cachebroignore":
		byName = false
	default: // a file listed in builtIn, which decides only about directories that tools can create again
		return nil
	}
	searched := 0
	_ = fs.WalkDir(s.source.root.FS(), top, func(name string, d fs.DirEntry, err error) error {
		if searched++; searched > maxSearched {
			return fs.SkipAll
		}
		_, listed := builtIn[path.Base(name)]
		dir := path.Dir(name)
		switch {
		case err != nil || name == ".":
		case d.IsDir() && underGit(name):
			return fs.SkipDir
		case d.IsDir() && (listed || !byName):
			if s.dir(name).class != Tracked {
				return fs.SkipDir
			}
			dirs = append(dirs, name)
		case slices.Contains(marks, d.Name()) && dir != ".":
			if s.dir(dir).class == Tracked {
				dirs = append(dirs, dir)
			}
		}
		return nil
	})
	slices.Sort(dirs)
	return dirs
}

// decidesFor returns the directory to whose subtree the rules in a file apply.
func decidesFor(p string) string {
	top := path.Dir(p)
	switch path.Base(p) {
	case "exclude":
		top = path.Clean(strings.TrimSuffix(top, ".git/info"))
	case "HEAD":
		top = path.Dir(top)
	}
	return top
}

func (m *Matcher) dropRules(p string) {
	dir, base := path.Split(p)
	dir = strings.TrimSuffix(dir, "/")
	if s := m.now.Load(); dir != "" {
		switch base {
		case ".gitignore", ".cachebroignore", "CACHEDIR.TAG", "pyvenv.cfg":
			s.drop(dir, true)
			return
		case "exclude", ".git", "HEAD":
		default: // a file that decides whether directories next to it are excluded
			for name, beside := range builtIn {
				if slices.Contains(beside, base) {
					s.dropKnown(dir + "/" + name)
				}
			}
			return
		}
	}
	m.load.Lock()
	defer m.load.Unlock()
	m.now.Store(m.build())
}

// Forget drops the rules of a directory and, if andBelow is set, of its subtree. Call it after the
// directory was renamed or removed, because another directory may get its name.
func (m *Matcher) Forget(p string, andBelow bool) { m.now.Load().drop(p, andBelow) }

func (s *snapshot) drop(p string, andBelow bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dirs.Delete(p)
	if andBelow {
		s.dropBelow(p)
	}
}

// dropKnown drops a directory and its subtree if the directory is cached.
func (s *snapshot) dropKnown(p string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.dirs.LoadAndDelete(p); ok {
		s.dropBelow(p)
	}
}

// dropBelow drops the subtree of a directory. The caller holds mu for writing.
func (s *snapshot) dropBelow(p string) {
	s.dirs.Range(func(k, _ any) bool {
		if strings.HasPrefix(k.(string), p+"/") {
			s.dirs.Delete(k)
		}
		return true
	})
}

// underGit reports whether a path is a .git directory or in one.
func underGit(p string) bool {
	for i := strings.Index(p, ".git"); i >= 0; {
		end := i + len(".git")
		if (i == 0 || p[i-1] == '/') && (end == len(p) || p[end] == '/') {
			return true
		}
		next := strings.Index(p[end:], ".git")
		if next < 0 {
			break
		}
		i = end + next
	}
	return false
}

// build returns an empty snapshot.
func (m *Matcher) build() *snapshot {
	return &snapshot{source: m.source, clock: m.opt.Now, repo: m.source.findRepo(""), dirs: &sync.Map{},
		global: parse(readOutside(m.opt.ExcludesFile))}
}

// dir returns the rules of a directory; "." is the root.
func (s *snapshot) dir(p string) *dir {
	if d, ok := s.dirs.Load(p); ok {
		return d.(*dir)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.read(p)
}

// read returns the rules of a directory and caches them. The caller holds mu.
func (s *snapshot) read(p string) *dir {
	if d, ok := s.dirs.Load(p); ok {
		return d.(*dir)
	}
	d := &dir{path: p}
	if p == "." {
		d = &dir{repo: s.repo, top: true}
		if s.repo != nil {
			d.up, d.top = s.repo.above, s.repo.above == nil
		}
	} else {
		s.enter(d)
	}
	if !d.excludedByUser {
		if d.class == Tracked {
			d.rules = parse(s.source.file(path.Join(d.path, ".gitignore")))
		}
		d.excludeRules = parse(s.source.file(path.Join(d.path, ".cachebroignore")))
	}
	kept, _ := s.dirs.LoadOrStore(p, d)
	return kept.(*dir)
}

// enter classifies a directory in the root's subtree and finds its repository.
func (s *snapshot) enter(d *dir) {
	p := d.path
	d.up = s.read(path.Dir(p))
	d.repo = d.up.repo
	d.class, d.excludedByUser = s.classify(d.up, path.Base(p), p, true)
	_, listed := builtIn[path.Base(p)]
	d.excludedByMark = d.class == Excluded && d.up.class != Excluded && !d.excludedByUser && !listed
	if d.excludedByUser || !s.source.exists(p+"/.git") {
		return
	}
	r := s.source.findRepo(p)
	// A clone in an ignored directory is ignored like the rest of the directory. A linked worktree
	// is not, because somebody works in it.
	if r == nil || d.class != Tracked && !r.linked {
		return
	}
	d.repo, d.top = r, true
	d.class = Tracked
}

// classify applies the rules to a name in a directory. own reports whether a .cachebroignore
// excluded it.
func (s *snapshot) classify(in *dir, name, p string, isDir bool) (c Class, own bool) {
	if in.excludedByUser {
		return Excluded, true
	}
	byUser := decide(in, p, name, isDir, false)
	if byUser == matched {
		return Excluded, true
	}
	if !isDir && in.excludedByMark && slices.Contains(marks, name) { // a mark itself is not excluded, because it decides the class of its directory
		return Ignored, false
	}
	if in.class == Excluded || mac && byUser != negated && ofMacOS(name) {
		return Excluded, false
	}
	ignored := in.class == Ignored
	if !ignored {
		verdict := decide(in, p, name, isDir, true)
		if verdict == unknown && in.repo != nil {
			verdict = last(in.repo.exclude, in.repo.inside(p), name, isDir)
		}
		if verdict == unknown {
			verdict = last(s.global, in.repo.inside(p), name, isDir)
		}
		ignored = verdict == matched
	}
	suspect := ignored || createdUnasked[name] || in.repo == nil && builtInAnywhere[name]
	if isDir && byUser != negated && suspect && s.rebuildable(in, name, p) {
		return Excluded, false
	}
	if ignored {
		return Ignored, false
	}
	return Tracked, false
}

// rebuildable reports whether a directory is on the built-in list, or marked as one that can be
// created again.
func (s *snapshot) rebuildable(in *dir, name, p string) bool {
	if beside, ok := builtIn[name]; ok {
		if len(beside) == 0 {
			return true
		}
		for _, f := range beside {
			if s.source.exists(path.Join(in.path, f)) {
				return true
			}
		}
	}
	return slices.ContainsFunc(marks, func(f string) bool { return s.source.exists(p + "/" + f) })
}

type verdict uint8

const (
	unknown verdict = iota
	matched
	negated
)

// decide applies the .gitignore or .cachebroignore files of a directory and its ancestors. The
// nearest file with a matching pattern decides.
func decide(in *dir, p, name string, isDir, git bool) verdict {
	for d := in; d != nil; d = d.up {
		ps := d.excludeRules
		if git {
			ps = d.rules
		}
		if len(ps) > 0 {
			if v := last(ps, d.relative(p), name, isDir); v != unknown {
				return v
			}
		}
		if git && d.top {
			break
		}
	}
	return unknown
}

// relative returns the path p of the project relative to d, which is above p.
func (d *dir) relative(p string) string {
	switch {
	case d.down != "":
		return d.down + "/" + p
	case d.path != "":
		return p[len(d.path)+1:]
	}
	return p
}

// last returns the verdict of the last pattern that matches.
func last(ps []pattern, rel, name string, isDir bool) verdict {
	for i := len(ps) - 1; i >= 0; i-- {
		if ps[i].matches(rel, name, isDir) {
			if ps[i].negated {
				return negated
			}
			return matched
		}
	}
	return unknown
}
