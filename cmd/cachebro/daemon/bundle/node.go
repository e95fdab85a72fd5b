package bundle

import (
	"maps"
	"path"
	"slices"
	"strings"

	"cachebro/search"
	"cachebro/store"
	"cachebro/store/knowledge/manifest"
	"cachebro/store/leaf/text"
)

const (
	KindFile  = "file"
	KindDir   = "directory"
	KindGroup = "group"
)

// findLocked returns the node that a reference means. It tries a group's name, then a file,
// then a directory with or without its final slash. "./" is the project.
func (g *Graph) findLocked(ref string) (id, kind string, ok bool) {
	if n, found := g.man.Node(ref); found && !g.isPathLocked(n) {
		return ref, KindGroup, true
	}
	p := path.Clean(ref) // a path out of the project is no node
	switch {
	case ref == "":
		return "", "", false
	case p == ".":
		return "./", KindDir, true
	case !strings.HasSuffix(ref, "/") && g.files[p] != nil:
		return p, KindFile, true
	case g.dirs[p+"/"] > 0:
		return p + "/", KindDir, true
	}
	return "", "", false
}

// isPathLocked reports whether an entry of cachebro.yml has no source and its name is an existing
// path. Such an entry only adds information about that path.
func (g *Graph) isPathLocked(n manifest.Node) bool {
	if len(n.Source) > 0 {
		return false
	}
	p, err := manifest.CleanPath(n.Name)
	return err == nil && (g.files[p] != nil || p == "./" || g.dirs[strings.TrimSuffix(p, "/")+"/"] > 0)
}

// manifestNodeLocked returns the entry of cachebro.yml for a node.
func (g *Graph) manifestNodeLocked(id, kind string) manifest.Node {
	for _, n := range g.man.Nodes {
		if n.Name == id && (kind == KindGroup) != g.isPathLocked(n) {
			return n
		}
		if kind != KindGroup && g.isPathLocked(n) {
			if p, err := manifest.CleanPath(n.Name); err == nil && (p == id || kind == KindDir && p+"/" == id) {
				return n
			}
		}
	}
	return manifest.Node{}
}

// membersLocked returns a node's files, sorted.
func (g *Graph) membersLocked(id, kind string) []string {
	switch kind {
	case KindFile:
		return []string{id}
	case KindDir:
		return g.belowLocked(id)
	}
	n, _ := g.man.Node(id)
	have := map[string]struct{}{}
	for _, src := range n.Source {
		for _, p := range g.matchLocked(src) {
			have[p] = struct{}{}
		}
	}
	return slices.Sorted(maps.Keys(have))
}

func (g *Graph) belowLocked(dir string) []string {
	if dir == "./" {
		dir = ""
	}
	var out []string
	for p := range g.files {
		if strings.HasPrefix(p, dir) {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

// matchLocked returns the files that a path or glob of cachebro.yml covers, sorted.
func (g *Graph) matchLocked(pattern string) []string {
	if g.files[pattern] != nil {
		return []string{pattern}
	}
	var out []string
	for p := range g.files {
		if covers([]string{pattern}, p) {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

// covers reports whether one of the patterns is a path, a directory that contains it, or a glob that
// matches it. A glob that ends in a slash matches what is in the directories.
func covers(patterns []string, p string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		name := strings.TrimSuffix(pattern, "/")
		if name == "." || p == name || strings.HasPrefix(p, name+"/") {
			return true
		}
		if name != pattern {
			pattern += "**"
		}
		return text.IsGlob(pattern) && text.MatchGlob(pattern, p)
	})
}

// summaryLocked returns one line about a node.
func (g *Graph) summaryLocked(id, kind string) string {
	if n := g.manifestNodeLocked(id, kind); n.Summary != "" {
		return strings.Join(strings.Fields(n.Summary), " ")
	}
	switch kind {
	case KindFile:
		return g.files[id].facts.Summary
	case KindDir:
		dir := strings.TrimPrefix(id, "./")
		for _, name := range []string{"doc.go", "README.md", "README", "README.rst", "README.txt", "__init__.py", "mod.rs", "index.ts", "index.js"} {
			if e := g.files[dir+name]; e != nil && e.facts.Summary != "" {
				return e.facts.Summary
			}
		}
		best := ""
		for p := range g.files {
			ofPackage := strings.HasSuffix(p, ".go") && strings.HasPrefix(g.files[p].facts.Summary, "Package ")
			if ofPackage && dirOf(p) == dir && (best == "" || p < best) {
				best = p
			}
		}
		if best != "" {
			return g.files[best].facts.Summary
		}
	}
	return ""
}

// allMineLocked reports whether all files of a directory are members.
func (g *Graph) allMineLocked(dir string, mine map[string]bool) bool {
	n := 0
	for p := range mine {
		if strings.HasPrefix(p, dir) {
			n++
		}
	}
	return n == g.dirs[dir]
}

// isCode reports whether a file's definitions belong in a bundle.
func isCode(p string, tests bool) bool {
	k := search.KindOf(p)
	return k == search.Code || tests && k == search.Test
}

// opWord describes in a word what a version did.
func opWord(op store.Op) string {
	switch op {
	case store.OpCreate, store.OpMknod:
		return "created"
	case store.OpRename, store.OpExchange:
		return "renamed"
	case store.OpLink:
		return "linked"
	case store.OpChmod:
		return "mode changed"
	case store.OpUnlink, store.OpMoved:
		return "deleted"
	case store.OpBaseline:
		return "found"
	}
	return "written"
}
