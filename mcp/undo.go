package mcp

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"cachebro/store/leaf/text"
	"cachebro/store/undo/apply"
	"cachebro/store/wire"

	"github.com/mark3labs/mcp-go/mcp"
)

var undoTool = &tool{
	name: "undo", title: "Undo", destroys: true,
	lean: new("Any program's last action; prompt: last"),
	desc: "Reverses the last action, or those of a session, prompt (id or last), tool_call, or since (10m, a time). Files that others changed later stay. Several files: a preview, unless dry_run=false.",
	handler: with(func(ctx context.Context, c *call, a undoArgs) (*mcp.CallToolResult, error) {
		return c.undoOrRedo(ctx, "undo", a)
	}),
}

// undoArgs are the arguments of undo and redo.
type undoArgs struct {
	Last     bool     `json:"last"`
	Session  string   `json:"session"`
	Prompt   string   `json:"prompt" list:"lean"`
	ToolCall string   `json:"tool_call"`
	Since    string   `json:"since"`
	Paths    []string `json:"paths"`
	DryRun   *bool    `json:"dry_run"`
}

// undoOrRedo implements undo and redo.
func (c *call) undoOrRedo(ctx context.Context, kind string, a undoArgs) (*mcp.CallToolResult, error) {
	req := wire.PlanRequest{
		Kind: kind, Last: a.Last, Session: a.Session, Prompt: a.Prompt, ToolCall: a.ToolCall,
	}
	if a.Since != "" {
		var err error
		req.Since, err = parseSince(a.Since, time.Now())
		if err != nil {
			return nil, err
		}
	}
	var err error
	req.Paths, err = c.paths(a.Paths)
	if err != nil {
		return nil, err
	}
	narrowed := a.Session != "" || a.Prompt != "" || a.ToolCall != "" || a.Since != ""
	req.Last = req.Last || !narrowed
	return c.runPlan(ctx, req, a.DryRun, map[string]string{"undo": "undone", "redo": "redone"}[kind])
}

func (c *call) paths(names []string) (rels [][]byte, err error) {
	for _, p := range names {
		rel, err := c.resolve(p)
		if err != nil {
			return nil, err
		}
		rels = append(rels, []byte(rel))
	}
	return rels, nil
}

// runPlan carries out a plan. It only shows the plan if *dry is true, or if dry is nil and more
// than one file would change. verb says what was done.
func (c *call) runPlan(ctx context.Context, req wire.PlanRequest, dry *bool, verb string) (*mcp.CallToolResult, error) {
	kind := req.Kind
	cut, err := c.finishInterrupted(ctx)
	if err != nil {
		return nil, err
	}
	// Ask for a preview first. The daemon does not write a preview into its journal.
	req.DryRun = true
	apply.Settle(c.s.dir())
	var p wire.Plan
	if _, err := c.s.backend.ask(ctx, wire.MPlan, req, nil, &p); err != nil {
		none := wire.AsError(err)
		return nil, c.withOthers(ctx, err, none.Session, none.Prompt)
	}
	if len(p.Steps) == 0 {
		return nil, c.withOthers(ctx, emptyPlan(p, "nothing to "+kind), p.Session, p.Prompt)
	}
	others := ""
	for _, line := range c.s.opt.Others(ctx, p.Session, p.Prompt) {
		others += "\n" + line
	}
	preview := func() *mcp.CallToolResult {
		return textResult(cut + planText("would "+kind, p, apply.Result{}) + others + fmt.Sprintf("\n(preview: nothing was changed. Call %s with dry_run=false to carry it out)", kind))
	}
	if dry != nil && *dry || dry == nil && apply.Files(p) > 1 {
		if err := apply.Preview(c.s.dir(), &p, false); err != nil {
			return nil, err
		}
		return preview(), nil
	}
	req.DryRun = false
	p = wire.Plan{}
	if _, err := c.s.backend.ask(ctx, wire.MPlan, req, nil, &p); err != nil {
		return nil, err
	}
	if dry == nil && apply.Files(p) > 1 {
		// The preview named at most one file, but another process has changed files since. Close
		// the journalled plan without carrying out a step.
		_, _ = c.s.backend.ask(ctx, wire.MPlanDone, wire.PlanDone{ID: p.ID, Finished: true}, nil, nil)
		return preview(), nil
	}
	done, out, err := c.applyPlan(ctx, p)
	if err != nil {
		return nil, err
	}
	return planResult(cut, verb, p, done, out, others+reverseTool(c, kind)), nil
}

// withOthers adds to an error what the session or prompt also changed in other projects.
func (c *call) withOthers(ctx context.Context, err error, session, prompt string) error {
	lines := c.s.opt.Others(ctx, session, prompt)
	if len(lines) == 0 {
		return err
	}
	return wire.Errorf(wire.AsError(err), wire.Hint(err), "%v; %s", err, strings.Join(lines, "; "))
}

// reverseTool returns a note that names the tool that reverses this operation.
func reverseTool(c *call, kind string) string {
	if kind != "redo" && c.s.offers("redo") {
		return "\n(redo reverses this)"
	}
	return ""
}

// parseSince parses a time, or an age such as 10m, like the command line.
func parseSince(t string, now time.Time) (time.Time, error) {
	at, ok := wire.ParseTime(strings.TrimSpace(t), now)
	if !ok || !at.Before(now) {
		return time.Time{}, badInput("since "+quote(t)+" is not a time in the past", "give 10m, 2h, 3d, 1w, 12:40 or 2026-01-31 12:40")
	}
	return at, nil
}

var redoTool = &tool{
	name: "redo", title: "Redo", destroys: true,
	desc: "Reverses the last undo; same arguments as undo.",
	handler: with(func(ctx context.Context, c *call, a undoArgs) (*mcp.CallToolResult, error) {
		return c.undoOrRedo(ctx, "redo", a)
	}),
}

// applyPlan carries out a journalled plan through the project's own path, and reports to the daemon
// what was done. A step whose file is not as the plan expects is skipped and returned as a
// conflict.
func (c *call) applyPlan(ctx context.Context, p wire.Plan) (done int, res apply.Result, err error) {
	s := c.s
	var paths [][]byte
	for _, st := range p.Steps[:min(len(p.Steps), 100)] {
		paths = append(paths, st.Path)
	}
	end := c.attributeWrites(ctx, paths...)
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

// finishInterrupted completes an undo, redo, restore or revert whose process was killed, so that the
// next plan finds the files in their final state. It returns a note that says what was completed.
func (c *call) finishInterrupted(ctx context.Context) (note string, err error) {
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
		if st.Below > 0 {
			fmt.Fprintf(&b, " · with %s", text.Count(st.Below, "file"))
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
		fmt.Fprintf(b, "\n  %s", quote(string(c.Path)))
		if len(c.To) > 0 {
			fmt.Fprintf(b, " -> %s", quote(string(c.To)))
		}
		fmt.Fprintf(b, ": %s", clean(c.Why))
		if who := actor(c.Actor); who != "" {
			fmt.Fprintf(b, " by %s", who)
		}
		if !c.Time.IsZero() {
			fmt.Fprintf(b, " at %s", c.Time.Local().Format(time.TimeOnly))
		}
	}
}
