package hooks

import (
	"context"

	"cachebro/store/wire"
)

// subagentStart and subagentStop begin and end a reader of its own: a sub-agent
// has seen nothing of what the main loop was shown.
func subagentStart(ctx context.Context, c *call) answer {
	if c.agent == "" {
		return answer{}
	}
	_, _ = c.tell(ctx, wire.SessionEvent{Event: "subagent-start"})
	return answer{}
}

func subagentStop(ctx context.Context, c *call) answer {
	if c.agent == "" {
		return answer{}
	}
	_, _ = c.tell(ctx, wire.SessionEvent{Event: "subagent-stop"})
	return answer{}
}
