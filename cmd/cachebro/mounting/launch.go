package mounting

import (
	"context"
	"fmt"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/history"
	"cachebro/fusefs/mounts/supervisor"
)

// Launch mounts in the background and finishes what an earlier mount left half done.
// It returns when the daemon knows of the mount too, so that the next command does
// not hear "not mounted" because mountd is still about to say hello.
func Launch(ctx context.Context, e *cli.Env, m PlannedMount) (supervisor.Report, error) {
	report, err := supervisor.Launch(ctx, m.Config)
	if err != nil {
		return report, err
	}
	finishOpen(ctx, e, m)
	return report, nil
}

// finishOpen waits until the daemon knows of the mount and finishes what was
// left half done on it.
func finishOpen(ctx context.Context, e *cli.Env, m PlannedMount) {
	t := cli.Target{Root: m.Root, Point: m.Mountpoint}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	c, err := e.Connect(ctx, t.Root)
	if err == nil {
		defer c.Close()
		_, err = e.AskStatus(ctx, c)
	}
	if err == nil && !m.ReadOnly {
		_, err = history.ResumeOpen(ctx, e, t, c)
	}
	if err != nil {
		fmt.Fprintf(e.Stderr, "note: what was cut short could not be finished: %s\n", cli.OneLine(err.Error()))
	}
}
