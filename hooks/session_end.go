package hooks

import (
	"context"
	"os"

	"cachebro/store/wire"
)

// sessionEnd removes the session's files. It prints nothing, because the client shows output of
// this event only as that of a failed hook.
func sessionEnd(ctx context.Context, c *call) answer {
	_, _ = c.tell(ctx, wire.SessionEvent{Event: "end"})
	c.chain().remove()
	for _, file := range []string{c.lostFile(), c.sentFile()} { // a session that comes back starts anew
		if file != "" {
			_ = os.Remove(file)
		}
	}
	return answer{}
}
