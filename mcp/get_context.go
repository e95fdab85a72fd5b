package mcp

import (
	"context"
	"errors"

	"github.com/mark3labs/mcp-go/mcp"

	"cachebro/store/wire"
)

var getContextTool = &tool{
	name: "get_context", title: "Context of a node", profile: ProfileAll, reads: true, idempotent: true,
	desc: "What belongs to a file, a directory (dir/) or a group of cachebro.yml: summary, symbols, pieces of documents, newest versions, neighbours. A repeat gives cached:true or a diff. force: the whole bundle.",
	schema: `{"type":"object","properties":{"ref":{"type":"string"},"depth":{"type":"integer","default":2},"max_nodes":{"type":"integer","default":20},` +
		`"max_chunks":{"type":"integer","default":10},"force":{"type":"boolean"}},"required":["ref"]}`,
	run: func(ctx context.Context, c *call) (*mcp.CallToolResult, error) {
		var a struct {
			Ref       string `json:"ref"`
			RefID     string `json:"ref_id"`
			Depth     int    `json:"depth"`
			MaxNodes  int    `json:"max_nodes"`
			MaxChunks int    `json:"max_chunks"`
			Force     bool   `json:"force"`
		}
		if err := bind(c.req, &a); err != nil {
			return nil, err
		}
		if a.Ref == "" {
			a.Ref = a.RefID
		}
		if a.Ref == "" {
			return nil, badInput("argument ref is missing", "give a file, a directory or a group of cachebro.yml; get_graph lists them")
		}
		return c.bundle(ctx, wire.ContextRequest{Ref: c.ref(a.Ref), Depth: a.Depth, MaxNodes: a.MaxNodes, MaxChunks: a.MaxChunks, Force: a.Force})
	},
}

// bundle asks the daemon, which knows what this reader was shown.
func (c *call) bundle(ctx context.Context, q wire.ContextRequest) (*mcp.CallToolResult, error) {
	key := "context:" + q.Ref
	if q.Graph {
		key = "graph:" + q.Ref
	}
	q.Reader, q.Tool, q.Pending = c.reader, c.tool.name, c.reader.ToolUse != ""
	q.Force = q.Force || c.conn.mustForce(key)
	var ans wire.ContextAnswer
	out, err := c.s.back.ask(ctx, wire.MContext, q, nil, &ans)
	if err != nil {
		return nil, err
	}
	c.conn.wasSent(key)
	return textResult(compose(ans.ReadAnswer, out).text), nil
}

// ref makes an absolute path inside the project relative; anything else may be
// the name of a group and stays as it is.
func (c *call) ref(given string) string {
	if len(given) == 0 || given[0] != '/' {
		return given
	}
	rel, err := c.s.resolve(given)
	var outside *wire.Error
	if errors.As(err, &outside) {
		return given
	}
	if rel == "" {
		return "./"
	}
	return rel
}
