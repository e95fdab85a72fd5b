package mcp

import (
	"context"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"cachebro/store/undo/gitback"
	"cachebro/store/wire"
)

var gitLostTool = &tool{
	name: "git_lost", title: "Lost commits", profile: ProfileAll, reads: true, idempotent: true,
	desc:   "Commits, branches, stashes that nothing reaches any more, each with the command that brings it back.",
	schema: `{"type":"object","properties":{"limit":{"type":"integer","default":20}}}`,
	run: func(ctx context.Context, c *call) (*mcp.CallToolResult, error) {
		a := struct {
			Limit int `json:"limit"`
		}{Limit: 20}
		if err := bind(c.req, &a); err != nil {
			return nil, err
		}
		var known wire.GitLost
		if _, err := c.s.back.ask(ctx, wire.MGitLost, wire.Empty{}, nil, &known); err != nil {
			return nil, err
		}
		lost, err := gitback.Place{Base: c.s.dir(), Kept: known.Kept}.Lost(ctx, known.Tips)
		if err != nil {
			return nil, err
		}
		if len(lost) == 0 {
			return textResult("nothing is lost that is known"), nil
		}
		var b strings.Builder
		for i, x := range lost {
			if i == a.Limit && a.Limit > 0 {
				fmt.Fprintf(&b, "[%d more: limit]\n", len(lost)-i)
				break
			}
			fmt.Fprintf(&b, "%s %s %s %s\n  %s\n", x.Commit[:12], x.Until.Local().Format("01-02 15:04"), quote(x.Name), quote(x.Subject), quote(x.Command))
		}
		return textResult(strings.TrimSuffix(b.String(), "\n")), nil
	},
}
