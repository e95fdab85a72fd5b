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

// Launch mounts in the background and finishes any undo that was cut short there.
// It returns when the daemon knows of the mount too; otherwise the next command could
// hear "not mounted" until mountd has said hello.
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

// finishOpen waits until the daemon knows of the mount, then finishes any undo that was
// cut short there.
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

// mountAgain revives a mount that has gone from its mountpoint but that mountd still serves,
// for copies in other mount namespaces. If the system does not let mountd mount again, it
// ends mountd, unless somebody has something open on the mount. again reports whether the
// mount was revived.
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
