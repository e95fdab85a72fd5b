package mcp

import (
	"context"

	"github.com/mark3labs/mcp-go/mcp"
)

var redoTool = &tool{
	name: "redo", title: "Redo", profile: ProfileAll, destroys: true,
	desc: "Reverses the last undo; same arguments as undo.",
	handler: with(func(ctx context.Context, c *call, a undoArgs) (*mcp.CallToolResult, error) {
		return c.undoOrRedo(ctx, "redo", a)
	}),
}
