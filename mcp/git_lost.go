package mcp

import (
	"context"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"cachebro/store/undo/gitback"
	"cachebro/store/wire"
)

// gitLostArgs are the arguments of git_lost.
type gitLostArgs struct {
	Limit int `json:"limit" default:"20"`
}

var gitLostTool = &tool{
	name: "git_lost", title: "Lost commits", reads: true, idempotent: true,
	desc: "Commits, branches, stashes that nothing reaches any more, each with the command that restores it.",
	handler: with(func(ctx context.Context, c *call, a gitLostArgs) (*mcp.CallToolResult, error) {
		var known wire.GitLost
		if _, err := c.s.backend.ask(ctx, wire.MGitLost, wire.Empty{}, nil, &known); err != nil {
			return nil, err
		}
		lost, err := gitback.Place{Base: c.s.dir(), Kept: known.Kept}.Lost(ctx, known.Tips)
		if err != nil {
			return nil, err
		}
		if len(lost) == 0 {
			return textResult("no lost commits, branches or stashes are known"), nil
		}
		var b strings.Builder
		for i, x := range lost {
			if i == a.Limit && a.Limit > 0 {
				fmt.Fprintf(&b, "[%d more: set a higher limit]\n", len(lost)-i)
				break
			}
			fmt.Fprintf(&b, "%s %s %s %s\n  %s\n", x.Commit[:12], x.Until.Local().Format("01-02 15:04"), quote(x.Name), quote(x.Subject), quote(x.Command))
		}
		return textResult(strings.TrimSuffix(b.String(), "\n")), nil
	}),
}
