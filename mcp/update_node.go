package mcp

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"cachebro/store/knowledge/manifest"
)

// updateNodeArgs are the arguments of update_node.
type updateNodeArgs struct {
	Ref     string   `json:"ref,required" alias:"ref_id"`
	Summary string   `json:"summary"`
	Source  []string `json:"source"`
}

var updateNodeTool = &tool{
	name: "update_node", title: "Describe a node", profile: ProfileAll, idempotent: true,
	desc: "Sets summary or source (paths) of a node in cachebro.yml; comments and order stay. ref: a group there, a file or a directory; with source, a new group.",
	handler: with(func(ctx context.Context, c *call, a updateNodeArgs) (*mcp.CallToolResult, error) {
		switch {
		case a.Ref == "":
			return nil, badInput("ref is empty", "give a group of "+manifest.Name+", a file or a directory")
		case a.Summary == "" && len(a.Source) == 0:
			return nil, badInput("nothing to set", "give summary, source or both")
		}
		defer c.s.lockFile(manifest.Name)()
		f, err := c.s.open(manifest.Name)
		if err != nil {
			return nil, c.explain(manifest.Name, err)
		}
		defer f.Root.Close()
		ref, err := c.nodeName(f.Content, a.Ref, len(a.Source) > 0)
		if err != nil {
			return nil, err
		}
		after, err := editNode(f.Content, ref, a.Summary, a.Source)
		if err != nil {
			return nil, badInput(err.Error(), "edit_file can change "+manifest.Name+" too")
		}
		if f.Exists && bytes.Equal(after, f.Content) {
			return textResult(fmt.Sprintf("%s already has these values for %s", manifest.Name, quote(ref))), nil
		}
		note, err := c.apply(ctx, change{rel: manifest.Name, f: f, after: after, unseen: true})
		if err != nil {
			return nil, err
		}
		return textResult(fmt.Sprintf("updated %s in %s%s", quote(ref), manifest.Name, note)), nil
	}),
}

// nodeName returns a node's name in the file: that of an existing node, a path of the project, or
// with a source a new group.
func (c *call) nodeName(content []byte, ref string, isNew bool) (string, error) {
	m, err := manifest.Parse(content)
	if err != nil {
		return "", badInput(err.Error(), "repair the file first")
	}
	if _, ok := m.Node(ref); ok {
		return ref, nil
	}
	rel, err := c.resolve(ref)
	if err == nil && rel != "" {
		root, err := os.OpenRoot(c.s.dir())
		if err != nil {
			return "", fileError("", err)
		}
		defer root.Close()
		if st, err := root.Stat(rel); err == nil {
			name := rel
			if st.IsDir() {
				name += "/"
			}
			if _, ok := m.Node(strings.TrimSuffix(name, "/")); ok {
				name = strings.TrimSuffix(name, "/")
			}
			return name, nil
		}
	}
	if isNew {
		return ref, nil
	}
	var names []string
	for _, n := range m.Nodes {
		names = append(names, quote(n.Name))
	}
	hint := "give a path of the project, or source to make a new group"
	if len(names) > 0 {
		hint += "; groups are " + strings.Join(names[:min(len(names), 20)], ", ")
	}
	return "", badInput(fmt.Sprintf("there is no node %s", quote(ref)), hint)
}

// editNode sets what is given.
func editNode(text []byte, ref, summary string, source []string) (_ []byte, err error) {
	if summary != "" {
		text, err = manifest.Set(text, summary, "nodes", ref, "summary")
		if err != nil {
			return nil, err
		}
	}
	if len(source) == 0 {
		return text, nil
	}
	for i, s := range source {
		source[i], err = manifest.CleanPath(s)
		if err != nil {
			return nil, fmt.Errorf("source: %w", err)
		}
	}
	if len(source) == 1 {
		return manifest.Set(text, source[0], "nodes", ref, "source")
	}
	return manifest.Set(text, source, "nodes", ref, "source")
}
