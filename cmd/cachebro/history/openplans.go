package history

import (
	"context"
	"fmt"
	"slices"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/leaf/text"
	"cachebro/store/undo/apply"
	"cachebro/store/wire"
)

// ResumeOpen finishes each undo, redo, restore or revert whose process was killed. It does not ask,
// because the person has already agreed. It lists the steps that it could not do or only partly did,
// for example because a file has changed since. left is their number. finished are the
// operations with their results.
func ResumeOpen(ctx context.Context, e *cli.Env, t cli.Target, c *wire.Client) (finished []*side, left int, err error) {
	open, err := wire.Call[wire.OpenPlans](ctx, c, wire.MPlanOpen, wire.Empty{})
	if err != nil {
		return nil, 0, err
	}
	for _, head := range open.Plans {
		plan, err := wire.Call[wire.Plan](ctx, c, wire.MPlan, wire.PlanRequest{Kind: "resume", Plan: head.ID})
		if err != nil {
			return finished, left, err
		}
		res, err := Apply(ctx, e, t, c, plan, false)
		printFailures(e, res.Failed, res.Left)
		left += len(res.Failed) + len(res.Left)
		if err != nil {
			return finished, left, err
		}
		finished = append(finished, &side{t: t, plan: plan, res: res})
		fmt.Fprintf(e.Stderr, "note: completed an operation that was interrupted %s: %s %s (%s; %s reverses this)\n",
			atTime(head.Begun, e.Now()), plan.Kind, cli.OneLine(plan.Title), text.Count(len(res.Done), "change"), reverseCommand([]*side{{t: t, plan: plan}}, false))
	}
	return finished, left, nil
}

// repeats reports whether a request is the one that was interrupted and is finished now: an undo of
// the last action, or a redo of the last undo. It would undo or redo one more.
func repeats(r wire.PlanRequest, finished []*side) bool {
	last := r.Kind == "undo" && r.Last || r.Kind == "redo" && r.Plan == ""
	return last && slices.ContainsFunc(finished, func(s *side) bool { return s.plan.Kind == r.Kind })
}

// resumeOutside is ResumeOpen for the history of what is outside of projects.
func resumeOutside(ctx context.Context, e *cli.Env) (left int, err error) {
	state, err := e.Paths().State(wire.OutsideRoot)
	if err != nil || !cli.IsDir(state) {
		return 0, err
	}
	c, err := e.Connect(ctx, wire.OutsideRoot)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	_, left, err = ResumeOpen(ctx, e, cli.Target{Root: wire.OutsideRoot}, c)
	return left, err
}

// rollback reverses what the last interrupted undo, redo, restore or revert has done.
func rollback(ctx context.Context, e *cli.Env, t cli.Target, c *wire.Client, f planFlags) error {
	open, err := wire.Call[wire.OpenPlans](ctx, c, wire.MPlanOpen, wire.Empty{})
	if err != nil {
		return err
	}
	if len(open.Plans) == 0 {
		fmt.Fprintln(e.Stdout, "there is no interrupted undo")
		return nil
	}
	last := open.Plans[len(open.Plans)-1]
	return runPlan(ctx, e, t, c, wire.PlanRequest{Kind: "rollback", Plan: last.ID}, f)
}

// rolledBack closes a plan that was interrupted before it changed anything.
func rolledBack(ctx context.Context, t cli.Target, c *wire.Client, plan wire.Plan) error {
	if err := apply.Sweep(t.Base(), plan.Cut); err != nil {
		return err
	}
	_, err := c.Call(ctx, wire.MPlanDone, wire.PlanDone{ID: plan.Cut.ID, Finished: true}, nil, nil)
	return err
}

func atTime(at, now time.Time) string {
	if at.IsZero() {
		return "earlier"
	}
	return "at " + cli.Stamp(at, now)
}
