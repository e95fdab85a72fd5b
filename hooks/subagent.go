package hooks

import (
	"context"

	"cachebro/store/wire"
)

// subagentStart and subagentStop begin and end a separate reader, because a sub-agent does not see
// the texts that the main loop was shown.
func subagentStart(ctx context.Context, c *call) answer {
	if c.agent == "" {
		return answer{}
	}
	if a, err := c.tell(ctx, wire.SessionEvent{Event: "subagent-start"}); err == nil && a.TellOrigin {
		c.agent = "" // the prompt is the main loop's
		c.tellOrigin(ctx)
	}
	return answer{}
}

func subagentStop(ctx context.Context, c *call) answer {
	if c.agent == "" {
		return answer{}
	}
	_, _ = c.tell(ctx, wire.SessionEvent{Event: "subagent-stop"})
	return answer{}
}
