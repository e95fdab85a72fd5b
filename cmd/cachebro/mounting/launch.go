package mounting

import (
	"context"
	"fmt"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/history"
	"cachebro/fusefs/mounts"
	"cachebro/fusefs/mounts/supervisor"
	"cachebro/store/wire"
)

// Launch mounts in the background and finishes what an earlier mount left half done.
// It returns when the daemon knows of the mount too, so that the next command does
// not hear "not mounted" because mountd is still about to say hello.
func Launch(ctx context.Context, e *cli.Env, m PlannedMount) (supervisor.Report, error) {
	report, again, err := mountAgain(ctx, e, m)
	if !again && err == nil {
		report, err = supervisor.Launch(ctx, m.Config)
	}
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

// mountAgain goes on with a mount that has gone from its mountpoint and is served for
// copies of it in other mount namespaces. Where the system does not let mountd mount it
// again, it ends if nobody has anything open there. again is false where there is none, or
// none any more.
func mountAgain(ctx context.Context, e *cli.Env, m PlannedMount) (report supervisor.Report, again bool, err error) {
	r, ok := supervisor.ReadRecord(m.State)
	if !ok || !r.Unmounted || !mounts.Running(r.PID, 0) || !mounts.Ours(r.PID) {
		return report, false, nil
	}
	if r.Mountpoint == m.Mountpoint && r.Version == m.Version && !m.ReadOnly && !m.Private {
		err := wire.MountAgain(ctx, m.Paths, m.Root)
		if err == nil {
			return supervisor.Report{OK: true, PID: r.PID}, true, nil
		}
	}
	l := leftMount{m.Root, m.State, r}
	users, _, seen := l.users()
	if len(users) > 0 || !seen {
		who := "by processes that cannot be seen from here"
		if seen {
			who = mounts.Describe(users, 8)
		}
		return report, false, cli.Hintf("end them, or: cachebro umount --force "+cli.Arg(r.Mountpoint)+" ends it for them", "the earlier mount of %s is still in use: %s", cli.Quote(m.Root), who)
	}
	_, err = awaitEnd(ctx, e, l, true)
	return report, false, err
}
