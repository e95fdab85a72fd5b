package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"cachebro/store/wire"
)

// Ask sends one request to the store daemon, like wire.Client.Call.
type Ask func(ctx context.Context, method string, req any, body []byte, reply any) ([]byte, error)

// journalEvery is the number of steps reported to the daemon in one request. If a client is killed
// before a report, the resumed plan finds out by itself which steps were done.
const journalEvery = 256

// CarryOut carries out a plan of the journal in dir. It fetches the contents from the daemon and
// reports the steps to the journal. It ignores work.Fetch. work.Lock and work.After may be nil.
func CarryOut(ctx context.Context, ask Ask, dir string, p wire.Plan, work Work) (Result, error) {
	var pending []int
	tell := func(d wire.PlanDone) error {
		d.ID, d.Watched = p.ID, work.Watched
		d.Done, pending = pending, nil
		_, err := ask(context.WithoutCancel(ctx), wire.MPlanDone, d, nil, nil)
		return err
	}
	after := work.After
	work.Fetch = func(ctx context.Context, ns []int) ([][]byte, error) {
		var sizes wire.PlanContents
		body, err := ask(ctx, wire.MPlanFetch, wire.PlanFetch{ID: p.ID, N: ns}, nil, &sizes)
		if err != nil {
			return nil, err
		}
		return parts(body, sizes.Sizes)
	}
	work.After = func(n int) error {
		if after != nil {
			if err := after(n); err != nil {
				return err
			}
		}
		pending = append(pending, n)
		if len(pending) < journalEvery {
			return nil
		}
		return tell(wire.PlanDone{})
	}
	res, err := Plan(ctx, dir, p, work)
	// A plan that the user stops counts as finished. Only the plan of a killed process is resumed.
	finished := err == nil || ctx.Err() != nil
	Settle(dir) // an empty file that is reported after the end of the plan would not belong to it
	if terr := tell(wire.PlanDone{Failed: slices.Concat(res.Failed, res.Left), Finished: finished}); err == nil && terr != nil {
		err = fmt.Errorf("the files are written, but the journal of the plan could not be closed: %w", terr)
	}
	return res, err
}

func parts(body []byte, sizes []int) ([][]byte, error) {
	var out [][]byte
	for _, n := range sizes {
		if n < 0 || n > len(body) {
			return nil, errors.New("the daemon's answer is shorter than it says")
		}
		out, body = append(out, body[:n:n]), body[n:]
	}
	return out, nil
}

// Resume completes the plans of killed processes, because the user had agreed to them. It leaves
// alone files that have changed since. It calls ended for each plan.
func Resume(ctx context.Context, ask Ask, dir string, work Work, ended func(head, p wire.Plan, res Result)) error {
	var open wire.OpenPlans
	if _, err := ask(ctx, wire.MPlanOpen, wire.Empty{}, nil, &open); err != nil {
		return err
	}
	for _, head := range open.Plans {
		var p wire.Plan
		if _, err := ask(ctx, wire.MPlan, wire.PlanRequest{Kind: "resume", Plan: head.ID}, nil, &p); err != nil {
			return err
		}
		res, err := CarryOut(ctx, ask, dir, p, work)
		if err != nil {
			return err
		}
		ended(head, p, res)
	}
	return nil
}
