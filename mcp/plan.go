package mcp

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"cachebro/store/undo/apply"
	"cachebro/store/wire"
)

// applyPlan carries out a journalled plan through the project's own path, and reports to the daemon
// what was done. A step whose file is not as the plan expects is skipped and returned as a
// conflict.
func (c *call) applyPlan(ctx context.Context, p wire.Plan) (done int, res apply.Result, err error) {
	s := c.s
	var paths [][]byte
	for _, st := range p.Steps[:min(len(p.Steps), 100)] {
		paths = append(paths, st.Path)
	}
	end := c.window(ctx, paths...)
	steps := map[int]*wire.PlanStep{}
	for i := range p.Steps {
		steps[p.Steps[i].N] = &p.Steps[i]
	}
	res, err = apply.CarryOut(ctx, s.backend.ask, s.dir(), p, apply.Work{
		Lock: s.locks.lock,
		After: func(n int) error {
			done++
			st := steps[n]
			s.listHistory(string(st.Path))
			c.progress(ctx, done, len(p.Steps), st.Do+" "+quote(string(st.Path)))
			return nil
		},
	})
	end(len(res.Failed) > 0)
	if err != nil && ctx.Err() == nil && done > 0 {
		s.opt.Logger.Warn("plan not ended", "plan", p.ID, "err", err)
		err = nil
	}
	return done, res, err
}

// finishCut completes an undo, redo, restore or revert whose process was killed, so that the next
// plan finds the files in their final state. It returns a note about that.
func (c *call) finishCut(ctx context.Context) (note string, err error) {
	s := c.s
	err = apply.Resume(ctx, s.backend.ask, s.dir(), apply.Work{Lock: s.locks.lock}, func(_, p wire.Plan, res apply.Result) {
		note += fmt.Sprintf("cachebro completed an interrupted operation: %s %s (%d changes)\n", p.Kind, clean(p.Title), len(res.Done))
		for _, st := range p.Steps {
			s.listHistory(string(st.Path))
		}
	})
	return note, err
}

// planResult reports the outcome of a plan: everything done, some files left as they are and
// listed, or nothing done.
func planResult(before, verb string, p wire.Plan, done int, out apply.Result, after string) *mcp.CallToolResult {
	switch left := len(p.Conflicts) + len(p.Lost) + len(out.Failed) + len(out.Left); {
	case done == 0:
		verb, after = "not "+verb, ""
	case left > 0:
		verb += fmt.Sprintf(" in part; %d not changed as planned, listed below", left)
	}
	res := textResult(before + planText(verb, p, out) + after)
	res.IsError = done == 0
	return res
}

// planText shows a plan or its outcome.
func planText(verb string, p wire.Plan, done apply.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", verb, clean(p.Title))
	bad := make([]string, len(done.Failed))
	for i, f := range done.Failed {
		bad[i] = string(f.Path)
	}
	const most = 200
	for i, st := range p.Steps {
		if i == most {
			fmt.Fprintf(&b, "\n[... %d more]", len(p.Steps)-most)
			break
		}
		if slices.Contains(bad, string(st.Path)) {
			continue
		}
		fmt.Fprintf(&b, "\n  %-7s %s", st.Do, quote(string(st.Path)))
		if len(st.To) > 0 {
			fmt.Fprintf(&b, " -> %s", quote(string(st.To)))
		}
		if st.Added+st.Removed > 0 {
			fmt.Fprintf(&b, " · +%d -%d", st.Added, st.Removed)
		}
	}
	conflicts(&b, "not changed", slices.Concat(p.Conflicts, done.Failed))
	conflicts(&b, "done, but not exactly as planned", done.Left)
	conflicts(&b, "not in the history, cannot be restored", p.Lost)
	return b.String()
}

func conflicts(b *strings.Builder, head string, cs []wire.Conflict) {
	if len(cs) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s:", head)
	for i, c := range cs {
		if i == 50 {
			fmt.Fprintf(b, "\n  [... %d more]", len(cs)-50)
			return
		}
		fmt.Fprintf(b, "\n  %s: %s", quote(string(c.Path)), clean(c.Why))
		if who := actor(c.Actor); who != "" {
			fmt.Fprintf(b, " by %s", who)
		}
		if !c.Time.IsZero() {
			fmt.Fprintf(b, " at %s", c.Time.Local().Format(time.TimeOnly))
		}
	}
}
