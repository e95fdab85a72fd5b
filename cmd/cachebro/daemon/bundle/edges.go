package bundle

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Edge leads from a node to a neighbour.
type Edge struct {
	To, Kind string // the neighbour
	Words    string // such as "documented by, imports (3)"
	weight   int
}

// weights says how close each relation makes two nodes.
var weights = map[string]int{
	"uses": 1000, "used by": 1000, "part of": 400, "documented by": 50, "documents": 50,
	"read before writing": 40, "written after reading": 40, "imports": 20, "imported by": 20,
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

// relation is a relation of a node to a neighbour.
type relation struct{ to, kind, word string }

// tally counts the relations of a node to its neighbours.
type tally struct {
	g        *Graph
	id, kind string
	members  []string // the node's files
	mine     map[string]bool
	counts   map[relation]int
}

// edgesLocked returns the edges to a node's neighbours, the closest first.
func (g *Graph) edgesLocked(id, kind string, members []string) []Edge {
	if id == "./" {
		return nil
	}
	t := &tally{g: g, id: id, kind: kind, members: members, mine: make(map[string]bool, len(members)), counts: map[relation]int{}}
	packages := map[string]bool{}
	for _, m := range members {
		t.mine[m] = true
		packages[dirOf(m)] = true
	}
	for _, m := range members {
		t.linksFromLocked(m)
		t.linksToLocked(m)
		t.pairsLocked(m)
	}
	for d := range packages {
		if d != "" && (kind == KindFile || !t.outsideLocked(d)) {
			t.linksToLocked(d)
		}
	}
	if d := dirOf(id); kind == KindFile && d != "" {
		t.count(d, KindDir, "part of", 1)
	}
	t.manifestLocked()
	return t.edges()
}

func (t *tally) count(to, kind, word string, n int) {
	if to != t.id || kind != t.kind {
		t.counts[relation{to, kind, word}] += n
	}
}

// outsideLocked reports whether a path is neither the node itself nor in it.
func (t *tally) outsideLocked(p string) bool {
	switch {
	case !strings.HasSuffix(p, "/"):
		return !t.mine[p]
	case t.kind == KindDir:
		return !strings.HasPrefix(p, t.id)
	}
	return t.kind != KindGroup || !t.g.allMineLocked(p, t.mine)
}

// linksFromLocked counts what a file of the node imports and documents.
func (t *tally) linksFromLocked(file string) {
	for target, k := range t.g.files[file].out {
		if !t.outsideLocked(target) {
			continue
		}
		to, kind := unitOf(target)
		if k&linkImport != 0 && t.outsideLocked(to) {
			t.count(to, kind, "imports", 1)
		}
		if k&linkDoc != 0 {
			kind := KindFile
			if strings.HasSuffix(target, "/") {
				kind = KindDir
			}
			t.count(target, kind, "documents", 1)
		}
	}
}

// linksToLocked counts the files outside of the node that import or document a file or directory.
func (t *tally) linksToLocked(target string) {
	for file, k := range t.g.in[target] {
		if t.mine[file] {
			continue
		}
		to, kind := unitOf(file)
		if k&linkImport != 0 && t.outsideLocked(to) {
			t.count(to, kind, "imported by", 1)
		}
		if k&linkDoc != 0 {
			t.count(file, KindFile, "documented by", 1)
		}
	}
}

// pairsLocked counts how often other files were read before a file of the node was written, and the
// reverse.
func (t *tally) pairsLocked(file string) {
	t.g.o.Pairs.each(file, func(other string, n int, before bool) {
		switch {
		case t.mine[other] || t.g.files[other] == nil:
		case before:
			t.count(other, KindFile, "read before writing", n)
		default:
			t.count(other, KindFile, "written after reading", n)
		}
	})
}

// manifestLocked counts the relations that cachebro.yml states.
func (t *tally) manifestLocked() {
	g := t.g
	for _, u := range g.manifestNodeLocked(t.id, t.kind).Uses {
		if to, kind, ok := g.findLocked(u); ok {
			t.count(to, kind, "uses", 1)
		}
	}
	for _, n := range g.man.Nodes {
		id, kind := n.Name, KindGroup
		if g.isPathLocked(n) {
			id, kind, _ = g.findLocked(n.Name)
		} else if t.kind != KindGroup && covers(n.Source, strings.TrimSuffix(t.id, "/")) {
			t.count(id, kind, "part of", 1)
		}
		for _, u := range n.Uses {
			if to, used, ok := g.findLocked(u); ok && to == t.id && used == t.kind {
				t.count(id, kind, "used by", 1)
			}
		}
	}
	for _, pair := range g.man.Docs {
		documented := slices.ContainsFunc(t.members, func(m string) bool { return covers(pair.Code, m) })
		if documented && g.files[pair.Doc] != nil && !t.mine[pair.Doc] {
			t.count(pair.Doc, KindFile, "documented by", 1)
		}
	}
}

// edges returns one edge for each neighbour, the closest first.
func (t *tally) edges() []Edge {
	type node struct{ id, kind string }
	byNode := map[node]*Edge{}
	for _, r := range slices.SortedFunc(maps.Keys(t.counts), func(a, b relation) int { return strings.Compare(a.word, b.word) }) {
		at := node{r.to, r.kind}
		e := byNode[at]
		if e == nil {
			e = &Edge{To: r.to, Kind: r.kind}
			byNode[at] = e
		} else {
			e.Words += ", "
		}
		e.Words += r.word
		n := t.counts[r]
		if n > 1 {
			e.Words += fmt.Sprintf(" (%d)", n)
		}
		e.weight += weights[r.word] * min(n, 10)
	}
	out := make([]Edge, 0, len(byNode))
	for _, e := range byNode {
		out = append(out, *e)
	}
	slices.SortFunc(out, func(a, b Edge) int {
		return cmp.Or(b.weight-a.weight, strings.Compare(a.To, b.To), strings.Compare(a.Kind, b.Kind))
	})
	return out
}
