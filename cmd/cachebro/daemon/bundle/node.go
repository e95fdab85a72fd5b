package bundle

import (
	"cmp"
	"fmt"
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

// Edge leads from a node to a neighbour.
type Edge struct {
	To, Kind string // the neighbour
	Words    string // such as "documented by, imports (3)"
	weight   int
}

// unitOf returns the node that represents a file among the neighbours. For a Go file it is the
// package's directory.
func unitOf(p string) (id, kind string) {
	if strings.HasSuffix(p, "/") {
		return p, KindDir
	}
	if d := dirOf(p); strings.HasSuffix(p, ".go") && d != "" {
		return d, KindDir
	}
	return p, KindFile
}

// edgesLocked returns the edges to a node's neighbours, the closest first.
func (g *Graph) edgesLocked(id, kind string, members []string) []Edge {
	if id == "./" {
		return nil
	}
	mine := make(map[string]bool, len(members))
	dirs := map[string]bool{} // packages of the members
	for _, m := range members {
		mine[m] = true
		dirs[dirOf(m)] = true
	}
	type key struct{ to, kind, word string }
	counts := map[key]int{}
	count := func(to, tokind, word string, n int) {
		if to != id || tokind != kind {
			counts[key{to, tokind, word}] += n
		}
	}
	outside := func(p string) bool { // neither the node itself nor anything in it
		if strings.HasSuffix(p, "/") {
			return !(kind == KindDir && strings.HasPrefix(p, id)) && !(kind == KindGroup && g.allMineLocked(p, mine))
		}
		return !mine[p]
	}
	in := func(target string) {
		for src, k := range g.in[target] {
			if mine[src] {
				continue
			}
			if k&linkImport != 0 {
				to, tk := unitOf(src)
				if outside(to) {
					count(to, tk, "imported by", 1)
				}
			}
			if k&linkDoc != 0 {
				count(src, KindFile, "documented by", 1)
			}
		}
	}
	for _, m := range members {
		for target, k := range g.files[m].out {
			if !outside(target) {
				continue
			}
			if k&linkImport != 0 {
				to, tk := unitOf(target)
				if outside(to) {
					count(to, tk, "imports", 1)
				}
			}
			if k&linkDoc != 0 {
				tk := KindFile
				if strings.HasSuffix(target, "/") {
					tk = KindDir
				}
				count(target, tk, "documents", 1)
			}
		}
		in(m)
		g.o.Pairs.each(m, func(other string, n int, before bool) {
			if mine[other] || g.files[other] == nil {
				return
			}
			if before {
				count(other, KindFile, "read before writing", n)
			} else {
				count(other, KindFile, "written after reading", n)
			}
		})
	}
	for d := range dirs {
		if d != "" && (kind == KindFile || !outside(d)) {
			in(d)
		}
	}
	if d := dirOf(id); kind == KindFile && d != "" {
		count(d, KindDir, "part of", 1)
	}
	manifestNode := g.manifestNodeLocked(id, kind)
	for _, u := range manifestNode.Uses {
		if to, tk, ok := g.findLocked(u); ok {
			count(to, tk, "uses", 1)
		}
	}
	for _, n := range g.man.Nodes {
		nid, nk := n.Name, KindGroup
		if g.isPathLocked(n) {
			nid, nk, _ = g.findLocked(n.Name)
		} else if kind == KindFile && covers(n.Source, id) || kind == KindDir && covers(n.Source, strings.TrimSuffix(id, "/")) {
			count(nid, nk, "part of", 1)
		}
		for _, u := range n.Uses {
			if to, tk, ok := g.findLocked(u); ok && to == id && tk == kind {
				count(nid, nk, "used by", 1)
			}
		}
	}
	for _, pair := range g.man.Docs {
		if slices.ContainsFunc(members, func(m string) bool { return covers(pair.Code, m) }) && g.files[pair.Doc] != nil && !mine[pair.Doc] {
			count(pair.Doc, KindFile, "documented by", 1)
		}
	}
	weights := map[string]int{"uses": 1000, "used by": 1000, "part of": 400, "documented by": 50, "documents": 50, "read before writing": 40, "written after reading": 40, "imports": 20, "imported by": 20}
	byNode := map[[2]string]*Edge{}
	words := map[[2]string][]string{}
	for _, k := range slices.SortedFunc(maps.Keys(counts), func(a, b key) int {
		return cmp.Or(strings.Compare(a.word, b.word), strings.Compare(a.to, b.to), strings.Compare(a.kind, b.kind))
	}) {
		at := [2]string{k.to, k.kind}
		e := byNode[at]
		if e == nil {
			e = &Edge{To: k.to, Kind: k.kind}
			byNode[at] = e
		}
		w := k.word
		if n := counts[k]; n > 1 {
			w += fmt.Sprintf(" (%d)", n)
		}
		words[at] = append(words[at], w)
		e.weight += weights[k.word] * min(counts[k], 10)
	}
	out := make([]Edge, 0, len(byNode))
	for at, e := range byNode {
		e.Words = strings.Join(words[at], ", ")
		out = append(out, *e)
	}
	slices.SortFunc(out, func(a, b Edge) int {
		return cmp.Or(b.weight-a.weight, strings.Compare(a.To, b.To), strings.Compare(a.Kind, b.Kind))
	})
	return out
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
