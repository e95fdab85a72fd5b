package hooks

import (
	"context"

	"cachebro/store/wire"
)

// preCompact and postCompact begin new epochs, because texts that the reader was shown before a
// compaction are no longer in its context.
func preCompact(ctx context.Context, c *call) answer {
	_, _ = c.tell(ctx, wire.SessionEvent{Event: "precompact"})
	return answer{}
}

func postCompact(ctx context.Context, c *call) answer {
	_, _ = c.tell(ctx, wire.SessionEvent{Event: "postcompact"})
	return answer{}
}
