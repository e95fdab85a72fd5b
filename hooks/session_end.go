package hooks

import (
	"context"
	"os"

	"cachebro/store/wire"
)

// sessionEnd forgets what was kept for the session. It says nothing: the client
// shows words of this event only as those of a hook that failed. What was saved
// is in "cachebro metrics".
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
