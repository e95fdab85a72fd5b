package bundle

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"cachebro/search"
	"cachebro/store"
	"cachebro/store/leaf/text"
)

// Query is a request for a bundle. A zero bound means its default.
type Query struct {
	Ref       string
	Depth     int // the depth of neighbours; 0 means 2
	MaxNodes  int // the number of neighbours; 0 means 20
	MaxChunks int // the number of sections of documents; 0 means 10
}

// The default and the upper limit of each bound.
const (
	defaultDepth, maxDepth   = 2, 5
	defaultNodes, maxNodes   = 20, 100
	defaultChunks, maxChunks = 10, 25

	maxFiles       = 60
	maxSymbols     = 150
	maxSymbolFiles = 60
	maxVersions    = 8
	maxEdges       = 300
)

// filled returns the query with defaults for zero bounds, and with the limits applied.
func (q Query) filled() Query {
	bound := func(n, def, most int) int {
		if n <= 0 {
			n = def
		}
		return min(n, most)
	}
	q.Depth = bound(q.Depth, defaultDepth, maxDepth)
	q.MaxNodes = bound(q.MaxNodes, defaultNodes, maxNodes)
	q.MaxChunks = bound(q.MaxChunks, defaultChunks, maxChunks)
	return q
}

// Plan is everything that a bundle will consist of. The bundle's text depends on nothing else.
type Plan struct {
	Ref, Kind, Label, Summary string
	Count                     int       // files
	Lines                     int       // of all files
	Members                   string    // a hash over the names and hashes of all files
	Files                     []FileRow // the first files; for a file, its own row
	Symbols                   []Blob    // the files whose definitions are listed
	Docs                      []Chunk   // sections of documents
	Versions                  []string  // newest first
	Neighbours                []NodeRow // closest first
	More                      int       // neighbours that were left out
	Edges                     []string  // only for PlanGraph
	Problems                  []string  // of cachebro.yml
}

// FileRow is a file in a list.
type FileRow struct {
	Path    string
	Lines   int
	Summary string
}

// Blob names a stored content and the path of its file.
type Blob struct {
	Path string
	Hash store.Hash
}

// Chunk is a section of a document.
type Chunk struct {
	Blob
	Section
}

// NodeRow is a neighbour.
type NodeRow struct {
	Ref, Kind, Edges, Via, Summary string
	Depth                          int
}

// Hash returns a hash of everything in the plan.
func (p *Plan) Hash() string {
	raw, err := json.Marshal(p) // the field order is fixed; Members distinguishes names that are not UTF-8
	if err != nil {
		return ""
	}
	return text.Hash(raw)
}

// ErrNoNode reports that a reference matches no node, and which nodes may have been meant.
type ErrNoNode struct {
	Ref  string
	Near []string
}

func (e *ErrNoNode) Error() string { return fmt.Sprintf("there is no node %q", e.Ref) }

// Plan returns what a node's bundle consists of now. Follow must have been called before.
func (g *Graph) Plan(ctx context.Context, q Query) (*Plan, error) {
	q = q.filled()
	g.mu.Lock()
	id, kind, ok := g.findLocked(q.Ref)
	if !ok {
		defer g.mu.Unlock()
		return nil, &ErrNoNode{q.Ref, g.nearLocked(q.Ref)}
	}
	members := g.membersLocked(id, kind)
	p := &Plan{Ref: id, Kind: kind, Summary: g.summaryLocked(id, kind), Count: len(members)}
	p.Label = g.manifestNodeLocked(id, kind).Kind
	h := sha256.New()
	var newest []*entry
	for _, m := range members {
		e := g.files[m]
		fmt.Fprintf(h, "%d %s %x\n", len(m), m, e.blob)
		p.Lines += e.facts.Lines
		if len(p.Files) < maxFiles && kind != KindFile {
			p.Files = append(p.Files, FileRow{m, e.facts.Lines, g.summaryLocked(m, KindFile)})
		}
		if len(p.Symbols) < maxSymbolFiles && isCode(m, kind == KindFile) && e.blob != (store.Hash{}) {
			p.Symbols = append(p.Symbols, Blob{m, e.blob})
		}
		newest = append(newest, e)
	}
	p.Members = hex.EncodeToString(h.Sum(nil))
	if kind != KindFile {
		slices.SortFunc(newest, func(a, b *entry) int { return cmp.Compare(b.seq, a.seq) })
		for _, e := range newest {
			if len(p.Versions) < maxVersions && e.op != store.OpBaseline {
				p.Versions = append(p.Versions, versionLine(e.seq, e.time, e.op, e.path, e.by))
			}
		}
	}
	p.Docs = g.docsLocked(id, kind, members, q.MaxChunks)
	p.Neighbours, p.More = g.aroundLocked(id, kind, members, q)
	p.Problems = g.problemsLocked()
	g.mu.Unlock()
	if kind == KindFile {
		if err := g.history(p); err != nil {
			return nil, err
		}
	}
	return p, ctx.Err()
}

func (g *Graph) problemsLocked() (out []string) {
	if g.manError != "" {
		out = append(out, g.manError)
	}
	for _, pr := range g.man.Problems {
		out = append(out, pr.String())
		if len(out) == 5 {
			break
		}
	}
	return out
}

// history adds a file's newest versions to the plan.
func (g *Graph) history(p *Plan) error {
	vs, err := g.o.Source.History(store.Path(p.Ref), true)
	if err != nil {
		return fmt.Errorf("history of %s: %w", p.Ref, err)
	}
	for i := len(vs) - 1; i >= 0 && len(p.Versions) < maxVersions; i-- {
		if v := vs[i]; v.Op != store.OpBaseline && v.Op != store.OpMoved {
			p.Versions = append(p.Versions, versionLine(v.Seq, v.Time, v.Op, string(v.Path), g.o.By(v.Actor)))
		}
	}
	return nil
}

func versionLine(seq uint64, t int64, op store.Op, p, by string) string {
	return fmt.Sprintf("%d %s %s %s by %s", seq, time.Unix(0, t).UTC().Format("2006-01-02T15:04:05Z"), p, opWord(op), by)
}

// docsLocked selects the sections of documents about a node. They come from the node itself, from
// documents that cachebro.yml pairs with it or that name it, and from the README next to it.
func (g *Graph) docsLocked(id, kind string, members []string, most int) (out []Chunk) {
	type pick struct {
		Chunk
		weight int
	}
	picks := map[string]*pick{}
	add := func(doc *entry, line, weight int) {
		for _, s := range doc.facts.Sections {
			if line < s.First || line > s.Last {
				continue
			}
			key := fmt.Sprintf("%s\x00%d", doc.path, s.First)
			if picks[key] == nil {
				picks[key] = &pick{Chunk: Chunk{Blob{doc.path, doc.blob}, s}}
			}
			picks[key].weight += weight
			return
		}
	}
	whole := func(doc *entry, weight int) {
		for i, s := range doc.facts.Sections {
			if i == most {
				break
			}
			add(doc, s.First, max(weight-i, 1))
		}
	}
	names := map[string]bool{}
	switch kind {
	case KindDir:
		names[id] = true
		if e := g.files[strings.TrimPrefix(id, "./")+"README.md"]; e != nil {
			whole(e, 200)
		}
	case KindGroup:
		n, _ := g.man.Node(id)
		for _, s := range n.Source {
			names[s] = true
			names[strings.TrimSuffix(s, "/")+"/"] = true
		}
	}
	if len(members) <= 200 { // in a large tree nearly every document would match
		for _, m := range members {
			names[m] = true
			if e := g.files[m]; search.KindOf(m) == search.Doc {
				whole(e, 100)
			}
		}
	}
	for name := range names {
		for src, k := range g.in[name] {
			if k&linkDoc == 0 {
				continue
			}
			doc := g.files[src]
			for _, m := range doc.facts.Mentions {
				if g.importedLocked(doc, m.Spec) == name {
					w := 20
					if name == id {
						w = 60
					}
					add(doc, m.Line, w)
				}
			}
		}
	}
	for _, pair := range g.man.Docs {
		doc := g.files[pair.Doc]
		if doc != nil && slices.ContainsFunc(members, func(m string) bool { return covers(pair.Code, m) }) && pair.Doc != id {
			whole(doc, 300)
		}
	}
	all := slices.SortedFunc(maps.Values(picks), func(a, b *pick) int {
		return cmp.Or(b.weight-a.weight, strings.Compare(a.Path, b.Path), a.First-b.First)
	})
	for _, p := range all[:min(len(all), most)] {
		out = append(out, p.Chunk)
	}
	return out
}

// aroundLocked walks from a node to its neighbours, level by level.
func (g *Graph) aroundLocked(id, kind string, members []string, q Query) (out []NodeRow, more int) {
	seen := map[[2]string]bool{{id, kind}: true}
	own := make(map[string]bool, len(members))
	for _, m := range members {
		own[m] = true
		seen[[2]string{m, KindFile}] = true
	}
	type at struct{ id, kind string }
	level := []at{{id, kind}}
	for depth := 1; depth <= q.Depth && len(level) > 0; depth++ {
		var next []at
		for _, n := range level {
			if depth > 1 {
				members = g.membersLocked(n.id, n.kind)
				if len(members) > 500 { // nearly every file is a neighbour of a large tree
					continue
				}
			}
			for _, e := range g.edgesLocked(n.id, n.kind, members) {
				if seen[[2]string{e.To, e.Kind}] || depth > 1 && e.Kind == KindDir && g.allMineLocked(e.To, own) {
					continue
				}
				if len(out) >= q.MaxNodes {
					more++
					continue
				}
				seen[[2]string{e.To, e.Kind}] = true
				r := NodeRow{Ref: e.To, Kind: e.Kind, Edges: e.Words, Depth: depth, Summary: g.summaryLocked(e.To, e.Kind)}
				if depth > 1 {
					r.Via = n.id
				}
				out = append(out, r)
				next = append(next, at{e.To, e.Kind})
			}
			if len(out) >= q.MaxNodes && depth > 1 {
				return out, more
			}
		}
		level = next
	}
	return out, more
}
