package mcp

import (
	"context"

	"github.com/mark3labs/mcp-go/mcp"

	"cachebro/store/wire"
)

var getGraphTool = &tool{
	name: "get_graph", title: "Graph", profile: ProfileAll, reads: true, idempotent: true,
	desc:   "Nodes and edges (imports, documents, read before write, cachebro.yml) around ref; of the whole project without it.",
	schema: `{"type":"object","properties":{"ref":{"type":"string"},"depth":{"type":"integer"},"max_nodes":{"type":"integer"},"force":{"type":"boolean"}}}`,
	run: func(ctx context.Context, c *call) (*mcp.CallToolResult, error) {
		var a struct {
			Ref      string `json:"ref"`
			RefID    string `json:"ref_id"`
			Depth    int    `json:"depth"`
			MaxNodes int    `json:"max_nodes"`
			Force    bool   `json:"force"`
		}
		if err := bind(c.req, &a); err != nil {
			return nil, err
		}
		if a.Ref == "" {
			a.Ref = a.RefID
		}
		return c.bundle(ctx, wire.ContextRequest{Ref: c.ref(a.Ref), Depth: a.Depth, MaxNodes: a.MaxNodes, Force: a.Force, Graph: true})
	},
}
