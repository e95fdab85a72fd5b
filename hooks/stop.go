package hooks

import (
	"context"

	"cachebro/store/wire"
)

// stop ends the prompt and shows the user one line about what was saved and changed since the last
// such line.
func stop(ctx context.Context, c *call) answer {
	if _, err := c.tell(ctx, wire.SessionEvent{Event: "stop", Given: tokensOf(len(c.reply))}); err != nil || c.agent != "" || c.opt.stopLine == "off" {
		return answer{}
	}
	c.countSchema(ctx)
	var m wire.Metrics
	if _, err := c.ask(ctx, wire.MMetrics, wire.MetricsQuery{Session: c.session, Delta: true}, nil, &m); err != nil {
		return answer{}
	}
	var r wire.Recovery
	if _, err := c.ask(ctx, wire.MRecovery, wire.SessionQuery{Session: c.session}, nil, &r); err != nil {
		return answer{}
	}
	if c.opt.stopLine != "always" && m.Saved <= 0 && r.Modified == 0 {
		return answer{}
	}
	return answer{out: output{message: stopLine(m, r.Branch, r.Modified)}}
}
