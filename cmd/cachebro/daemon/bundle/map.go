package bundle

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cachebro/store/leaf/text"
)

// PlanGraph selects the part of the graph around the node q.Ref. Without a reference it selects the
// groups and the directories that have files, for the whole project.
func (g *Graph) PlanGraph(ctx context.Context, q Query) (*Plan, error) {
	whole := q.Ref == "" || q.Ref == "." || q.Ref == "./"
	if whole && q.MaxNodes <= 0 {
		q.MaxNodes = 60
	}
	q = q.filled()
	g.mu.Lock()
	defer g.mu.Unlock()
	p := &Plan{Ref: "./", Kind: KindDir}
	if whole {
		p.Summary = g.summaryLocked("./", KindDir)
		p.Neighbours, p.More = g.placesLocked(q.MaxNodes)
	} else {
		id, kind, ok := g.findLocked(q.Ref)
		if !ok {
			return nil, &ErrNoNode{q.Ref, g.nearLocked(q.Ref)}
		}
		p.Ref = id
		p.Kind = kind
		p.Summary = g.summaryLocked(id, kind)
		p.Label = g.manifestNodeLocked(id, kind).Kind
		p.Neighbours, p.More = g.aroundLocked(id, kind, g.membersLocked(id, kind), q)
	}
	p.Edges = g.betweenLocked(p, whole)
	p.Problems = g.problemsLocked()
	return p, ctx.Err()
}

// placesLocked returns the groups, and the directories with the most files.
func (g *Graph) placesLocked(most int) (out []NodeRow, more int) {
	for _, n := range g.man.Nodes {
		if !g.isPathLocked(n) {
			out = append(out, NodeRow{Ref: n.Name, Kind: KindGroup, Summary: g.summaryLocked(n.Name, KindGroup)})
		}
	}
	own := map[string]int{}
	for p := range g.files {
		if d := dirOf(p); d != "" {
			own[d]++
		}
	}
	dirs := slices.SortedFunc(maps.Keys(own), func(a, b string) int { return cmp.Or(own[b]-own[a], strings.Compare(a, b)) })
	kept := dirs[:max(0, min(len(dirs), most-len(out)))]
	more = len(dirs) - len(kept)
	kept = slices.Sorted(slices.Values(kept))
	for _, d := range kept {
		out = append(out, NodeRow{Ref: d, Kind: KindDir, Edges: text.Count(own[d], "file"), Summary: g.summaryLocked(d, KindDir)})
	}
	return out, more
}

// betweenLocked returns the edges among the nodes of a plan. In the graph of the whole project, a
// directory represents only the files directly in it.
func (g *Graph) betweenLocked(p *Plan, whole bool) []string {
	in := map[[2]string]bool{{p.Ref, p.Kind}: true}
	for _, n := range p.Neighbours {
		in[[2]string{n.Ref, n.Kind}] = true
	}
	lines := map[string]bool{}
	if whole {
		counts := map[string]int{}
		for _, e := range g.files {
			from := dirOf(e.path)
			for target, k := range e.out {
				to := target
				if !strings.HasSuffix(to, "/") {
					to = dirOf(to)
				}
				if k&linkImport != 0 && from != to && in[[2]string{from, KindDir}] && in[[2]string{to, KindDir}] {
					counts[from+" -> "+to]++
				}
			}
		}
		for k, n := range counts {
			lines[fmt.Sprintf("%s imports (%d)", k, n)] = true
		}
		for _, n := range g.man.Nodes {
			for _, u := range n.Uses {
				if to, _, ok := g.findLocked(u); ok {
					lines[n.Name+" -> "+to+" uses"] = true
				}
			}
		}
		return slices.Sorted(maps.Keys(lines))
	}
	for at := range in {
		members := g.membersLocked(at[0], at[1])
		if len(members) > 500 && at[0] != p.Ref {
			continue
		}
		for _, e := range g.edgesLocked(at[0], at[1], members) {
			if !in[[2]string{e.To, e.Kind}] {
				continue
			}
			for _, w := range strings.Split(e.Words, ", ") {
				// List each edge once, in its own direction.
				if !strings.Contains(w, " by") && !strings.HasPrefix(w, "written after") {
					lines[at[0]+" -> "+e.To+" "+w] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(lines))
}

// GraphText formats a plan from PlanGraph as the text of the answer.
func GraphText(p *Plan) []byte {
	w := newWriter()
	w.field("ref", p.Ref)
	w.field("summary", p.Summary)
	var nodes []string
	for _, n := range p.Neighbours {
		nodes = append(nodes, joined(n.Ref, n.Kind, n.Edges, n.Summary))
	}
	list(w, "nodes", nodes, p.More)
	edges := p.Edges[:min(len(p.Edges), maxEdges)]
	list(w, "edges", edges, len(p.Edges)-len(edges))
	list(w, "problems", p.Problems, 0)
	return w.end()
}
