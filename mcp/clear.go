package mcp

import (
	"context"

	"github.com/mark3labs/mcp-go/mcp"
)

var cacheClearTool = &tool{
	name: "cache_clear", title: "Forget what was sent", profile: ProfileAll, idempotent: true,
	desc: "The next read of each file gives its full text. History is kept.",
	handler: with(func(_ context.Context, c *call, _ noArgs) (*mcp.CallToolResult, error) {
		if c.conn == nil {
			return textResult("cachebro does not record what this connection was sent, so every read gives the full text. History is kept"), nil
		}
		c.conn.clear()
		return textResult("cleared: the next read of each file gives its full text. History is kept"), nil
	}),
}
