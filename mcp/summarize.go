package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"cachebro/store/wire"
)

var summarizeTool = &tool{
	name: "summarize_session", title: "Session summary", profile: ProfileAll, reads: true, idempotent: true,
	desc: "Branch, files modified and read, what others changed, tokens saved.",
	handler: with(func(ctx context.Context, c *call, _ noArgs) (*mcp.CallToolResult, error) {
		session := c.s.session(c.conn)
		q := wire.SessionQuery{Session: session}
		var r wire.Recovery
		if _, err := c.s.backend.ask(ctx, wire.MRecovery, q, nil, &r); err != nil && !errors.Is(err, wire.ErrNotFound) {
			return nil, err
		}
		if !r.Known || len(r.Set.Files) == 0 {
			set, err := c.s.workingSet(ctx, c.conn)
			if err != nil {
				return nil, err
			}
			r.Metrics, err = c.s.metrics(ctx, wire.MetricsQuery{Session: session})
			if err != nil {
				return nil, err
			}
			r.Set = set
			if r.Branch == "" {
				r.Branch = set.Branch
			}
		}
		return textResult(c.s.summary(r)), nil
	}),
}

func (s *Server) summary(r wire.Recovery) string {
	edited, read := 0, 0
	for _, f := range r.Set.Files {
		if f.Edits > 0 {
			edited++
		} else {
			read++
		}
	}
	var b strings.Builder
	if r.Branch != "" {
		fmt.Fprintf(&b, "branch %s\n", quote(r.Branch))
	}
	fmt.Fprintf(&b, "%d files modified, %d read", edited, read)
	if !r.Mounted {
		b.WriteString(" (not mounted: changes by other programs are seen when a file is read)")
	}
	if len(r.Set.Files) > 0 {
		b.WriteString("\n" + s.workingSetText(r.Set))
	}
	for i, c := range r.Changed {
		if i == 20 {
			fmt.Fprintf(&b, "\n[... %d more changed by others]", len(r.Changed)-20)
			break
		}
		fmt.Fprintf(&b, "\nchanged by others: %s", clean(c))
	}
	if r.Failed != "" {
		fmt.Fprintf(&b, "\nlast failing command: %s", clean(r.Failed))
	}
	fmt.Fprintf(&b, "\n%s", metricsText(r.Metrics))
	return b.String()
}
