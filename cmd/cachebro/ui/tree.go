package ui

import (
	"cmp"
	"context"
	"html/template"
	"net/url"
	"slices"
	"strings"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/history"
	"cachebro/store/leaf/text"
	"cachebro/store/wire"
	"cachebro/store/wire/visible"
)

// treePart is the tree of the files that one action or prompt changed.
type treePart struct {
	Sum   string
	Nodes []treeNode
}

// treeNode is a file, or a directory with the nodes in it.
type treeNode struct {
	Name           string
	Letter, What   string
	Added, Removed int
	Gone           bool
	To             template.URL // the anchor of its diff on the page
	Files          int
	Below          []treeNode
}

// leaf is a file of a tree, with the elements of its path.
type leaf struct {
	path []string
	node treeNode
}

// isSet reports whether a query selects one action or prompt, for which all files are shown.
func isSet(q url.Values) bool { return q.Get("action") != "" || q.Get("prompt") != "" }

func (s *server) tree(ctx context.Context, q url.Values) (any, error) {
	aq, err := s.ask(q)
	if err != nil {
		return nil, err
	}
	aq.Lines = true
	aq.Files, aq.Limit = allFiles, cmp.Or(aq.Limit, recentActions)
	a, err := wire.Call[wire.Actions](ctx, s.c, wire.MActions, aq)
	if err != nil {
		return nil, err
	}
	var all []leaf
	known := map[string]int{}
	for _, x := range ofKind(a.Actions, q.Get("kind")) {
		for _, f := range x.Files {
			i, twice := known[string(f.Path)]
			if twice { // a newer action of the prompt also changed the file
				all[i].node.Added, all[i].node.Removed = all[i].node.Added+f.Added, all[i].node.Removed+f.Removed
				continue
			}
			known[string(f.Path)] = len(all)
			n := treeNode{Letter: history.LetterOf(cli.Paint{}, f), What: changes[f.Change], Added: f.Added, Removed: f.Removed, Files: 1}
			n.Gone = f.Change == wire.FileDeleted
			n.To = template.URL("#" + placeOf(x, f))
			all = append(all, leaf{strings.Split(string(f.Path), "/"), n})
		}
	}
	slices.SortFunc(all, func(a, b leaf) int { return slices.Compare(a.path, b.path) })
	out := treePart{Nodes: nodesOf(all), Sum: text.Count(len(all), "file")}
	if a.More && q.Get("action") == "" || slices.ContainsFunc(a.Actions, func(x wire.Action) bool { return history.Listed(x.Files) < x.Count }) {
		out.Sum = "the first " + out.Sum
	}
	return out, nil
}

// placeOf returns the id of the element with a file's diff in an action.
func placeOf(a wire.Action, f wire.ActionFile) string {
	return "f-" + digest(a.Key+" "+string(f.Path))
}

// nodesOf returns the nodes of sorted files. A directory whose only entry is a directory is joined
// with it.
func nodesOf(all []leaf) []treeNode {
	var dirs, files []treeNode
	for len(all) > 0 {
		first := all[0].path[0]
		if len(all[0].path) == 1 {
			n := all[0].node
			n.Name = visible.Name(first)
			files, all = append(files, n), all[1:]
			continue
		}
		dir := treeNode{Name: visible.Name(first)}
		var below []leaf
		for len(all) > 0 && len(all[0].path) > 1 && all[0].path[0] == first {
			l := all[0]
			dir.Files++
			dir.Added += l.node.Added
			dir.Removed += l.node.Removed
			below, all = append(below, leaf{l.path[1:], l.node}), all[1:]
		}
		dir.Below = nodesOf(below)
		if only := dir.Below; len(only) == 1 && len(only[0].Below) > 0 {
			dir.Name, dir.Below = dir.Name+"/"+only[0].Name, only[0].Below
		}
		dirs = append(dirs, dir)
	}
	return append(dirs, files...)
}
