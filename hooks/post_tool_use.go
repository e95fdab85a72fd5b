package hooks

import (
	"context"

	"cachebro/store/wire"
)

// postToolUse closes the tool call's window and looks at what was delivered.
func postToolUse(ctx context.Context, c *call) answer {
	if c.opt.client != "" {
		t := c.toolCall()
		t.Given = tokensOf(c.size)
		_, _ = c.ask(ctx, wire.MToolEnd, t, nil, nil)
		return answer{}
	}
	switch c.tool {
	case "Read":
		return c.readResult(ctx)
	case "Bash":
		t := c.toolCall()
		// Its writes come later; its processes stay the tool call's.
		t.Background = c.response.str("backgroundTaskId") != ""
		_, _ = c.ask(ctx, wire.MToolEnd, t, nil, nil)
		return c.shellResult(ctx)
	case "Edit", "Write", "NotebookEdit":
		_, _ = c.ask(ctx, wire.MToolEnd, c.toolCall(), nil, nil)
		c.ownEdit(ctx)
	}
	return answer{}
}

// postToolUseFailure closes the window of a call that failed: a Bash command
// with a status other than 0 may have written all the same.
func postToolUseFailure(ctx context.Context, c *call) answer {
	switch c.tool {
	case "Bash", "Edit", "Write", "NotebookEdit":
		t := c.toolCall()
		t.Failed = true
		_, _ = c.ask(ctx, wire.MToolEnd, t, nil, nil)
	}
	return answer{}
}
