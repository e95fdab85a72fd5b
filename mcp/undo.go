package mcp

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"cachebro/store/undo/apply"
	"cachebro/store/wire"
)

var undoTool = &tool{
	name: "undo", title: "Undo", profile: ProfileSafety, destroys: true,
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
	req := wire.PlanRequest{Kind: kind, Last: a.Last, Session: a.Session, Prompt: a.Prompt, ToolCall: a.ToolCall}
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
	if !req.Last && req.Session == "" && req.Prompt == "" && req.ToolCall == "" && req.Since.IsZero() {
		req.Last = true
	}
	return c.planned(ctx, req, a.DryRun, map[string]string{"undo": "undone", "redo": "redone"}[kind])
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

// planned carries out a plan. It only shows the plan if *dry is true, or if dry is nil and more
// than one file would change. verb says what was done.
func (c *call) planned(ctx context.Context, req wire.PlanRequest, dry *bool, verb string) (*mcp.CallToolResult, error) {
	kind := req.Kind
	cut, err := c.finishCut(ctx)
	if err != nil {
		return nil, err
	}
	// A preview is not journalled.
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
		// Another process changed files between the two requests. End the journalled plan without a
		// step.
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
	switch {
	case kind == "undo" && c.s.offers("redo"):
		return "\n(redo reverses this)"
	case kind == "restore" && c.s.offers("undo"):
		return "\n(undo reverses this)"
	}
	return ""
}

// parseSince parses a moment, or how long ago it was, like the command line.
func parseSince(t string, now time.Time) (time.Time, error) {
	at, ok := wire.ParseTime(strings.TrimSpace(t), now)
	if !ok || !at.Before(now) {
		return time.Time{}, badInput("since "+quote(t)+" is not a time in the past", "give 10m, 2h, 3d, 1w, 12:40 or 2026-01-31 12:40")
	}
	return at, nil
}
