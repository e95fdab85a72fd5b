package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"cachebro/fusefs/mounts/supervisor"
	"cachebro/store/undo/apply"
	"cachebro/store/wire"
)

// resumeOpen finishes what an undo, redo, restore or revert began before its
// process was killed: somebody agreed to all of it. What has changed meanwhile
// is left alone and named; left is how many that are.
func (e *env) resumeOpen(ctx context.Context, t target, c *wire.Client) (left int, err error) {
	open, err := wire.Call[wire.OpenPlans](ctx, c, wire.MPlanOpen, wire.Empty{})
	if err != nil {
		return 0, err
	}
	for _, head := range open.Plans {
		plan, err := wire.Call[wire.Plan](ctx, c, wire.MPlan, wire.PlanRequest{Kind: "resume", Plan: head.ID})
		if err != nil {
			return left, err
		}
		res, err := e.carryOut(ctx, t, c, plan, false)
		for _, x := range res.Failed {
			fmt.Fprintf(e.stderr, "not done: %s: %s\n", quote(string(x.Path)), oneLine(x.Why))
		}
		for _, x := range res.Left {
			fmt.Fprintf(e.stderr, "not quite: %s: %s\n", quote(string(x.Path)), oneLine(x.Why))
		}
		left += len(res.Failed) + len(res.Left)
		if err != nil {
			return left, err
		}
		fmt.Fprintf(e.stderr, "note: finished what was cut short %s: %s %s (%s; cachebro redo takes it back)\n",
			atTime(head.Begun, e.now()), plan.Kind, oneLine(plan.Title), count(len(res.Done), "change"))
	}
	return left, nil
}

// launch mounts in the background, returns when the daemon knows of it too, so
// that whoever asks next does not hear "not mounted" because mountd is still
// about to say hello, and finishes what an earlier mount left half done.
func (e *env) launch(ctx context.Context, m plannedMount) (supervisor.Report, error) {
	report, err := supervisor.Launch(ctx, m.Config)
	if err != nil {
		return report, err
	}
	e.finishOpen(ctx, m)
	return report, nil
}

// finishOpen waits until the daemon knows of the mount and finishes what was
// left half done on it.
func (e *env) finishOpen(ctx context.Context, m plannedMount) {
	t := target{root: m.Root, point: m.Mountpoint}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	c, err := e.connect(ctx, t.root)
	if err == nil {
		defer c.Close()
		_, err = e.askStatus(ctx, c)
	}
	if err == nil && !m.ReadOnly {
		_, err = e.resumeOpen(ctx, t, c)
	}
	if err != nil {
		fmt.Fprintf(e.stderr, "note: what was cut short could not be finished: %s\n", oneLine(err.Error()))
	}
}

// rollback takes back what a killed undo, redo, restore or revert had done.
func (e *env) rollback(ctx context.Context, t target, c *wire.Client, f planFlags) error {
	open, err := wire.Call[wire.OpenPlans](ctx, c, wire.MPlanOpen, wire.Empty{})
	if err != nil {
		return err
	}
	if len(open.Plans) == 0 {
		fmt.Fprintln(e.stdout, "nothing was cut short")
		return nil
	}
	last := open.Plans[len(open.Plans)-1]
	return e.takeBack(ctx, t, c, wire.PlanRequest{Kind: "rollback", Plan: last.ID}, f)
}

// rolledBack ends a plan that was cut short before anything came of it.
func (e *env) rolledBack(ctx context.Context, t target, c *wire.Client, plan wire.Plan) error {
	if err := apply.Sweep(t.base(), plan.Cut); err != nil {
		return err
	}
	_, err := c.Call(ctx, wire.MPlanDone, wire.PlanDone{ID: plan.Cut.ID, Finished: true}, nil, nil)
	return err
}

func atTime(at, now time.Time) string {
	if at.IsZero() {
		return "earlier"
	}
	return "at " + strings.TrimSpace(stamp(at, now))
}
