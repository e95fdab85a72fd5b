package hooks

import (
	"context"

	"cachebro/store/wire"
)

// preCompact and postCompact begin new epochs: what the reader was shown before
// is no longer in its context.
func preCompact(ctx context.Context, c *call) answer {
	_, _ = c.tell(ctx, wire.SessionEvent{Event: "precompact"})
	return answer{}
}

func postCompact(ctx context.Context, c *call) answer {
	_, _ = c.tell(ctx, wire.SessionEvent{Event: "postcompact"})
	return answer{}
}
