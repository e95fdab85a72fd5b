package bundle

import (
	"path"
	"slices"
	"strings"
	"sync"

	"cachebro/store"
	"cachebro/store/knowledge/manifest"
	"cachebro/store/leaf/cache"
)

// Source is what the graph is made from (store.Store).
type Source interface {
	Seq() uint64
	Since(seq uint64, limit int) ([]store.Version, error)
	Live(prefix store.Path, fn func(store.Version) error) error
	History(p store.Path, follow bool) ([]store.Version, error)
	Content(h store.Hash) ([]byte, error)
}

// KV stores rows (store.KV).
type KV interface {
	SetAll(vals map[string][]byte) error
	Scan(prefix string, fn func(key string, val []byte) error) error
}

// Options configure New. Source is required.
type Options struct {
	Source Source
	Rows   KV                         // nil if rows are not stored
	Pairs  *Pairs                     // nil if there are none
	Secret func(store.Path) bool      // reports which files are left out; nil if none
	By     func(a store.Actor) string // names the author of a version; nil means the command's name
	Warn   func(msg string, err error)
	Build  string // the build of this program; rows of another build are made again
}

// Graph is a project's files and their relations.
type Graph struct {
	o       Options
	turn    chan struct{} // capacity 1: held by the goroutine that follows the log
	symbols *cache.Cache[symbolKey, []symbolLine]

	mu       sync.Mutex // guards all below
	built    bool
	seq      uint64 // the graph covers the log up to this version
	files    map[string]*entry
	dirs     map[string]int                 // by directory with a final slash: the number of files in its subtree
	bases    map[string]map[string]struct{} // by base name: the paths that have it
	in       map[string]map[string]linkKind // by target: the files that link to it
	watch    map[string]map[string]struct{} // by name: the files with an import or mention that may refer to it
	mods     []Module
	man      *manifest.Manifest
	manError string
	stale    map[string]struct{} // files to be linked again
}

// entry is a tracked file.
type entry struct {
	path   string
	blob   store.Hash
	seq    uint64
	time   int64
	op     store.Op
	by     string
	facts  *Facts
	out    map[string]linkKind
	probes []string
}

type linkKind uint8

const (
	linkImport linkKind = 1 << iota
	linkDoc
)

// New returns an empty graph. Follow fills it.
func New(o Options) *Graph {
	if o.Secret == nil {
		o.Secret = func(store.Path) bool { return false }
	}
	if o.By == nil {
		o.By = func(a store.Actor) string { return a.Comm }
	}
	if o.Warn == nil {
		o.Warn = func(string, error) {}
	}
	return &Graph{
		o: o, turn: make(chan struct{}, 1), symbols: cache.New[symbolKey, []symbolLine](maxCached, nil),
		files: map[string]*entry{}, dirs: map[string]int{}, bases: map[string]map[string]struct{}{}, in: map[string]map[string]linkKind{},
		watch: map[string]map[string]struct{}{}, man: &manifest.Manifest{}, stale: map[string]struct{}{},
	}
}

// isNode reports whether a version makes its path a node. Nodes are tracked regular files that are
// not secret.
func (g *Graph) isNode(v store.Version) bool { return v.TrackedFile() && !g.o.Secret(v.Path) }

// row is a version with the facts from its content.
type row struct {
	v     store.Version
	facts *Facts
	text  []byte // of cachebro.yml
}

// applyLocked sets the present state of the paths to the given rows, in order. g.mu is held.
func (g *Graph) applyLocked(rows []row) {
	for _, r := range rows {
		p := string(r.v.Path)
		old := g.files[p]
		if !g.isNode(r.v) {
			if old != nil {
				g.removeLocked(old)
			}
			if p == manifest.Name {
				g.man, g.manError = &manifest.Manifest{}, ""
			}
			continue
		}
		if p == manifest.Name {
			g.man, g.manError = &manifest.Manifest{}, ""
			if m, err := manifest.Parse(r.text); err != nil {
				g.manError = err.Error()
			} else {
				g.man = m
			}
		}
		e := old
		if e == nil {
			e = &entry{path: p, facts: &Facts{}}
			g.addLocked(e)
		}
		module := e.facts.Module
		e.blob = r.v.Blob
		e.seq = r.v.Seq
		e.time = r.v.Time
		e.op = r.v.Op
		e.by = g.o.By(r.v.Actor)
		e.facts = r.facts
		g.stale[p] = struct{}{}
		if (module == nil) != (e.facts.Module == nil) || module != nil && *module != *e.facts.Module {
			g.modulesLocked()
		}
	}
	for p := range g.stale {
		if e := g.files[p]; e != nil {
			g.linkLocked(e)
		}
	}
	clear(g.stale)
}

func (g *Graph) addLocked(e *entry) {
	g.files[e.path] = e
	g.relinkSeekersLocked(e.path)
	for dir := dirOf(e.path); ; dir = dirOf(strings.TrimSuffix(dir, "/")) {
		if g.dirs[dir]++; g.dirs[dir] == 1 {
			g.relinkSeekersLocked(dir)
		}
		if dir == "" {
			break
		}
	}
	base := path.Base(e.path)
	if g.bases[base] == nil {
		g.bases[base] = map[string]struct{}{}
	}
	g.bases[base][e.path] = struct{}{}
	g.relinkSeekersLocked("**/" + base)
}

func (g *Graph) removeLocked(e *entry) {
	g.unlinkLocked(e)
	delete(g.files, e.path)
	delete(g.stale, e.path)
	g.relinkSeekersLocked(e.path)
	for dir := dirOf(e.path); ; dir = dirOf(strings.TrimSuffix(dir, "/")) {
		if g.dirs[dir]--; g.dirs[dir] == 0 {
			delete(g.dirs, dir)
			g.relinkSeekersLocked(dir)
		}
		if dir == "" {
			break
		}
	}
	base := path.Base(e.path)
	if delete(g.bases[base], e.path); len(g.bases[base]) == 0 {
		delete(g.bases, base)
	}
	g.relinkSeekersLocked("**/" + base)
	if e.facts.Module != nil {
		g.modulesLocked()
	}
}

// relinkSeekersLocked marks files to be linked again: those that may refer to a name that has now
// appeared or disappeared.
func (g *Graph) relinkSeekersLocked(name string) {
	for p := range g.watch[name] {
		g.stale[p] = struct{}{}
	}
}

// modulesLocked collects the Go modules and marks all Go files to be linked again, because
// their imports may now mean something else.
func (g *Graph) modulesLocked() {
	g.mods = nil
	for p := range g.bases["go.mod"] {
		if e := g.files[p]; e != nil && e.facts.Module != nil {
			g.mods = append(g.mods, *e.facts.Module)
		}
	}
	slices.SortFunc(g.mods, func(a, b Module) int { return strings.Compare(a.Dir, b.Dir) })
	for p := range g.files {
		if strings.HasSuffix(p, ".go") {
			g.stale[p] = struct{}{}
		}
	}
}

func (g *Graph) unlinkLocked(e *entry) {
	for _, probe := range e.probes {
		if delete(g.watch[probe], e.path); len(g.watch[probe]) == 0 {
			delete(g.watch, probe)
		}
	}
	for target := range e.out {
		if delete(g.in[target], e.path); len(g.in[target]) == 0 {
			delete(g.in, target)
		}
	}
	e.probes, e.out = nil, nil
}

// linkLocked resolves a file's specs (see importsOf) to the present files.
func (g *Graph) linkLocked(e *entry) {
	g.unlinkLocked(e)
	add := func(spec string, kind linkKind) {
		for _, at := range importTargets(e.path, spec, g.mods) {
			if g.watch[at] == nil {
				g.watch[at] = map[string]struct{}{}
			}
			if _, has := g.watch[at][e.path]; !has {
				g.watch[at][e.path] = struct{}{}
				e.probes = append(e.probes, at)
			}
			if target, ok := g.existingLocked(at); ok {
				if target == e.path || target == dirOf(e.path) && kind == linkImport {
					return
				}
				if e.out == nil {
					e.out = map[string]linkKind{}
				}
				e.out[target] |= kind
				if g.in[target] == nil {
					g.in[target] = map[string]linkKind{}
				}
				g.in[target][e.path] |= kind
				return
			}
		}
	}
	for _, s := range e.facts.Specs {
		add(s, linkImport)
	}
	for _, m := range e.facts.Mentions {
		add(m.Spec, linkDoc)
	}
}

// existingLocked returns the file or directory that at, a result of importTargets, leads to.
func (g *Graph) existingLocked(at string) (string, bool) {
	if base, ok := strings.CutPrefix(at, "**/"); ok {
		if len(g.bases[base]) == 1 {
			for p := range g.bases[base] {
				return p, true
			}
		}
		return "", false
	}
	if strings.HasSuffix(at, "/") {
		return at, g.dirs[at] > 0
	}
	return at, g.files[at] != nil
}

// dirOf returns the directory of a path with a final slash, "" for the root.
func dirOf(p string) string { return p[:strings.LastIndexByte(p, '/')+1] }
