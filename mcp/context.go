package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"cachebro/store/knowledge/manifest"
	"cachebro/store/wire"

	"github.com/mark3labs/mcp-go/mcp"
)

// getContextArgs are the arguments of get_context.
type getContextArgs struct {
	Ref       string `json:"ref,required" alias:"ref_id"`
	Depth     int    `json:"depth" default:"2"`
	MaxNodes  int    `json:"max_nodes" default:"20"`
	MaxChunks int    `json:"max_chunks" default:"10"`
	Force     bool   `json:"force"`
}

var getContextTool = &tool{
	name: "get_context", title: "Context of a node", reads: true, idempotent: true,
	desc: "What belongs to a file, a directory (dir/) or a group of cachebro.yml: summary, symbols, pieces of documents, newest versions, neighbours. A repeat gives cached:true or a diff. force: the whole bundle.",
	handler: with(func(ctx context.Context, c *call, a getContextArgs) (*mcp.CallToolResult, error) {
		if a.Ref == "" {
			return nil, badInput("ref is empty", "give a file, a directory or a group of cachebro.yml; get_graph lists them")
		}
		return c.bundle(ctx, wire.ContextRequest{Ref: c.ref(a.Ref), Depth: a.Depth, MaxNodes: a.MaxNodes, MaxChunks: a.MaxChunks, Force: a.Force})
	}),
}

// bundle asks the daemon for a bundle, which is shorter if this reader was shown it before.
func (c *call) bundle(ctx context.Context, q wire.ContextRequest) (*mcp.CallToolResult, error) {
	q.Reader, q.Tool = c.reader, c.tool.name
	q.Pending, q.Small = c.reader.ToolUse != "", c.small(1)
	var ans wire.ContextAnswer
	out, err := c.s.backend.ask(ctx, wire.MContext, q, nil, &ans)
	if err != nil {
		return nil, err
	}
	return textResult(compose(ans.ReadAnswer, out).text), nil
}

// ref makes an absolute path inside the project relative. It returns anything else unchanged,
// because it may be the name of a group.
func (c *call) ref(given string) string {
	if len(given) == 0 || given[0] != '/' {
		return given
	}
	rel, err := c.resolve(given)
	var outside *wire.Error
	if errors.As(err, &outside) {
		return given
	}
	if rel == "" {
		return "./"
	}
	return rel
}

// getGraphArgs are the arguments of get_graph.
type getGraphArgs struct {
	Ref      string `json:"ref" alias:"ref_id"`
	Depth    int    `json:"depth"`
	MaxNodes int    `json:"max_nodes"`
	Force    bool   `json:"force"`
}

var getGraphTool = &tool{
	name: "get_graph", title: "Graph", reads: true, idempotent: true,
	desc: "Nodes and edges (imports, documents, read before write, cachebro.yml) around ref; of the whole project without it.",
	handler: with(func(ctx context.Context, c *call, a getGraphArgs) (*mcp.CallToolResult, error) {
		return c.bundle(ctx, wire.ContextRequest{Ref: c.ref(a.Ref), Depth: a.Depth, MaxNodes: a.MaxNodes, Force: a.Force, Graph: true})
	}),
}

// updateNodeArgs are the arguments of update_node.
type updateNodeArgs struct {
	Ref     string   `json:"ref,required" alias:"ref_id"`
	Summary string   `json:"summary"`
	Source  []string `json:"source"`
}

var updateNodeTool = &tool{
	name: "update_node", title: "Describe a node", idempotent: true,
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

// nodeName returns a node's name in the file. The node exists already, is a path of the project or,
// if a source is given, is a new group.
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

// editNode sets a node's summary and sources. An empty value leaves the old one.
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
