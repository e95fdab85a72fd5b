package mcp

import (
	"context"
	"errors"

	"github.com/mark3labs/mcp-go/mcp"

	"cachebro/store/wire"
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
	name: "get_context", title: "Context of a node", profile: ProfileAll, reads: true, idempotent: true,
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
	key := "context:" + q.Ref
	if q.Graph {
		key = "graph:" + q.Ref
	}
	q.Reader, q.Tool, q.Pending = c.reader, c.tool.name, c.reader.ToolUse != ""
	q.Force = q.Force || c.conn.mustForce(c.sentAs(key))
	var ans wire.ContextAnswer
	out, err := c.s.backend.ask(ctx, wire.MContext, q, nil, &ans)
	if err != nil {
		return nil, err
	}
	c.conn.wasSent(c.sentAs(key))
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
