package hooks

import (
	"context"
	"os"

	"cachebro/store/wire"
)

// sessionEnd shows the session report. It cannot block anything, and the client
// shows its stderr only with exit status 2.
func sessionEnd(ctx context.Context, c *call) answer {
	var m wire.Metrics
	_, err := c.ask(ctx, wire.MMetrics, wire.MetricsQuery{Session: c.session}, nil, &m)
	var r wire.Recovery
	if err == nil {
		_, err = c.ask(ctx, wire.MRecovery, wire.SessionQuery{Session: c.session}, nil, &r)
	}
	_, _ = c.tell(ctx, wire.SessionEvent{Event: "end"})
	c.chain().remove()
	c.forgetReads()
	_ = os.Remove(c.lostFile()) // a session that comes back starts anew
	if err != nil || len(m.Tools) == 0 {
		return answer{}
	}
	// The client puts "SessionEnd hook […] failed:" before it, on the same line.
	return answer{err: "\n" + SessionReport(m, r.Branch, c.env.Color), code: 2}
}
