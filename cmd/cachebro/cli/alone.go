package cli

import (
	"context"
	"errors"
	"time"

	"cachebro/fusefs/mounts"
	"cachebro/store/wire"
)

// EndDaemon asks the store daemon of a root to end, if one is running, and waits for its end.
func (e *Env) EndDaemon(ctx context.Context, root string) {
	c, err := wire.Dial(ctx, e.Paths(), wire.Hello{Version: Version, Client: "cli", Root: root}, wire.Timeouts{Connect: time.Second, Answer: 5 * time.Second})
	if c == nil {
		return
	}
	defer c.Close()
	pid := c.Hello().PID
	if err == nil || errors.Is(err, wire.ErrVersion) {
		_, _ = c.Call(ctx, wire.MShutdown, wire.Empty{}, nil, nil)
	}
	for start := time.Now(); pid > 1 && mounts.Running(pid, 0) && time.Since(start) < 10*time.Second && ctx.Err() == nil; {
		time.Sleep(20 * time.Millisecond)
	}
}
