package hooks

import (
	"context"

	"cachebro/store/wire"
)

// preCompact and postCompact begin new epochs, because a compaction removes the shown texts from
// the reader's context.
func preCompact(ctx context.Context, c *call) answer {
	_, _ = c.tell(ctx, wire.SessionEvent{Event: "precompact"})
	return answer{}
}

func postCompact(ctx context.Context, c *call) answer {
	_, _ = c.tell(ctx, wire.SessionEvent{Event: "postcompact"})
	return answer{}
}
