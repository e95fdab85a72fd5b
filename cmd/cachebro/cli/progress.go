package cli

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"cachebro/store/leaf/text"
	"cachebro/store/wire"
	"cachebro/store/wire/visible"

	"golang.org/x/term"
)

// watchEvery is the pause before each line of progress, including the first.
const watchEvery = 300 * time.Millisecond

// WatchTree prints the progress of the daemon's scan of the whole tree. If the project is not
// mounted, the daemon scans before it answers.
func (e *Env) WatchTree(ctx context.Context, c *wire.Client) (done func()) {
	return e.Watch(ctx, func(ctx context.Context) string {
		st, err := wire.Call[wire.Status](ctx, c, wire.MStatus, wire.Empty{})
		if err != nil || !st.Baseline.Running {
			return ""
		}
		return fmt.Sprintf("looking for changes: %s", text.Count(st.Baseline.Files, "file"))
	})
}

// Watch prints a line of progress on a terminal until done is called. Each line replaces the
// previous one.
func (e *Env) Watch(ctx context.Context, line func(context.Context) string) (done func()) {
	f, ok := visible.Raw(e.Stderr).(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		shown := false
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				if shown {
					fmt.Fprint(f, "\r\x1b[K")
				}
				return
			case <-tick.C:
			}
			if text := line(ctx); text != "" {
				fmt.Fprint(f, "\r\x1b[K"+text)
				shown = true
			}
		}
	})
	return func() {
		cancel()
		watching.Wait()
	}
}
