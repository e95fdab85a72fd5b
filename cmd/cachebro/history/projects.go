package history

import (
	"context"
	"fmt"
	"io"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/undo/apply"
)

// noteOthers prints which other projects the prompt or session being undone has changed, and the
// commands that undo those changes. It omits the projects in besides.
func noteOthers(ctx context.Context, e *cli.Env, w io.Writer, t cli.Target, session, prompt string, besides ...string) {
	connect := func(ctx context.Context, root string) (apply.Ask, func() error, error) {
		c, err := e.Connect(ctx, root)
		if err != nil {
			c.Close()
			return nil, nil, err
		}
		return c.Call, c.Close, nil
	}
	for _, line := range apply.ChangedElsewhere(ctx, e.Paths(), t.Root, session, prompt, connect, besides...) {
		fmt.Fprintln(w, line)
	}
}
