package mcp

import (
	"context"

	"github.com/mark3labs/mcp-go/mcp"

	"cachebro/store/wire"
)

// getGraphArgs are the arguments of get_graph.
type getGraphArgs struct {
	Ref      string `json:"ref" alias:"ref_id"`
	Depth    int    `json:"depth"`
	MaxNodes int    `json:"max_nodes"`
	Force    bool   `json:"force"`
}

var getGraphTool = &tool{
	name: "get_graph", title: "Graph", profile: ProfileAll, reads: true, idempotent: true,
	desc: "Nodes and edges (imports, documents, read before write, cachebro.yml) around ref; of the whole project without it.",
	handler: with(func(ctx context.Context, c *call, a getGraphArgs) (*mcp.CallToolResult, error) {
		return c.bundle(ctx, wire.ContextRequest{Ref: c.ref(a.Ref), Depth: a.Depth, MaxNodes: a.MaxNodes, Force: a.Force, Graph: true})
	}),
}
