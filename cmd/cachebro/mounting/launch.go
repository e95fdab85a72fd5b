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

// Launch mounts in the background and finishes any interrupted undo of the project. It waits until
// mountd has registered with the daemon. Otherwise the next command might report that the project
// is not mounted.
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

// finishOpen waits until mountd has registered with the daemon, then finishes any interrupted undo
// of the project.
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
		_, _, err = history.ResumeOpen(ctx, e, t, c)
	}
	if err != nil {
		fmt.Fprintf(e.Stderr, "note: an interrupted undo could not be finished: %s\n", cli.OneLine(err.Error()))
	}
}

// mountAgain revives a mount that was unmounted but that mountd still serves, because other mount
// namespaces have copies of it. If mountd cannot mount again, mountAgain ends mountd, or fails if a
// process has something open on the mount. again reports whether the mount was revived.
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
	l := detachedMount{m.Root, m.State, r}
	users, _, seen := l.users()
	if len(users) > 0 || !seen {
		who := "by processes that cannot be seen from here"
		if seen {
			who = mounts.Describe(users, 8)
		}
		return report, false, cli.Hintf("end these processes, or detach them: cachebro umount --force "+cli.Arg(r.Mountpoint), "the earlier mount of %s is still in use: %s", cli.Quote(m.Root), who)
	}
	_, err = awaitEnd(ctx, e, l, true)
	return report, false, err
}
