package mcp

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"cachebro/store/leaf/text"
	"cachebro/store/wire"

	"github.com/mark3labs/mcp-go/mcp"
)

// revertFileArgs are the arguments of revert_file.
type revertFileArgs struct {
	Path    string `json:"path,required"`
	Steps   int    `json:"steps_back"`
	Version string `json:"version"`
}

var revertFileTool = &tool{
	name: "revert_file", title: "Revert file", destroys: true,
	desc: "Restores one file, also a deleted one: steps_back versions (default 1), or version from search_history.",
	handler: with(func(ctx context.Context, c *call, a revertFileArgs) (*mcp.CallToolResult, error) {
		rel, err := c.resolve(a.Path)
		if err != nil {
			return nil, err
		}
		if rel == "" {
			return nil, isDir(rel)
		}
		req := wire.PlanRequest{Kind: "revert", Path: []byte(rel), Steps: a.Steps}
		switch {
		case a.Steps < 0:
			return nil, badInput("steps_back is negative", "1 is the version before the newest")
		case a.Version != "" && a.Steps != 0:
			return nil, badInput("steps_back and version are both given", "give one of them")
		case a.Version != "":
			req.Version, err = version(a.Version)
			if err != nil {
				return nil, err
			}
			req.Version.Path = req.Path
		case a.Steps == 0:
			req.Steps = 1
		}
		cut, err := c.finishInterrupted(ctx)
		if err != nil {
			return nil, err
		}
		var p wire.Plan
		if _, err := c.s.backend.ask(ctx, wire.MPlan, req, nil, &p); err != nil {
			if errors.Is(err, wire.ErrNotFound) && wire.Hint(err) == "" {
				err = wire.Errorf(wire.ErrNotFound, "search_history path_filter="+quote(rel)+" lists the existing versions", "%v", err)
			}
			return nil, err
		}
		if len(p.Steps) == 0 {
			return nil, emptyPlan(p, "nothing to revert in "+quote(rel))
		}
		done, out, err := c.applyPlan(ctx, p)
		if err != nil {
			return nil, err
		}
		return planResult(cut, "reverted", p, done, out, ""), nil
	}),
}

// version parses "812" (a number of the log), "@3" (the file's third version) and "@-1"
// (one before the newest).
func version(v string) (wire.ShowQuery, error) {
	v = strings.TrimSpace(v)
	if n, err := strconv.ParseUint(strings.TrimPrefix(v, "#"), 10, 64); err == nil && n > 0 {
		return wire.ShowQuery{Seq: n}, nil
	}
	if n, err := strconv.Atoi(strings.TrimPrefix(v, "@")); err == nil && n != 0 {
		return wire.ShowQuery{Number: n}, nil
	}
	return wire.ShowQuery{}, badInput("version "+quote(v)+" is not valid", "give a number from search_history, @N for the file's Nth version, or @-1")
}

// emptyPlan explains an empty plan.
func emptyPlan(p wire.Plan, what string) error {
	why := ""
	if n := len(p.Conflicts); n > 0 {
		why = fmt.Sprintf(": %s: %s", quote(string(p.Conflicts[0].Path)), clean(p.Conflicts[0].Why))
	} else if n := len(p.Lost); n > 0 {
		why = fmt.Sprintf(": %s: %s", quote(string(p.Lost[0].Path)), clean(p.Lost[0].Why))
	}
	return wire.Errorf(wire.ErrNotFound, "search_history lists the recorded changes", "%s%s", what, why)
}

// restoreArgs are the arguments of restore.
type restoreArgs struct {
	At     string   `json:"at,required"`
	Paths  []string `json:"paths"`
	DryRun *bool    `json:"dry_run"`
}

var restoreTool = &tool{
	name: "restore", title: "Restore", destroys: true,
	desc: "Makes files (default: the whole tree) what they were at a moment (10m, 12:40, 812), whoever changed them since. Several files: a preview, unless dry_run=false.",
	handler: with(func(ctx context.Context, c *call, a restoreArgs) (*mcp.CallToolResult, error) {
		at, err := moment(a.At, time.Now())
		if err != nil {
			return nil, err
		}
		if at.Number != 0 {
			return nil, badInput("at "+quote(a.At)+" is one file's version", "give 10m, 12:40, 2026-01-31 12:40 or a number from search_history; revert_file takes @N")
		}
		req := wire.PlanRequest{Kind: "restore", At: at}
		req.Paths, err = c.paths(a.Paths)
		if err != nil {
			return nil, err
		}
		return c.runPlan(ctx, req, a.DryRun, "restored")
	}),
}

// moment parses a time, an age or a version (see version).
func moment(s string, now time.Time) (wire.ShowQuery, error) {
	s = strings.TrimSpace(s)
	if at, ok := wire.ParseTime(s, now); ok && at.Before(now) {
		return wire.ShowQuery{At: at}, nil
	}
	if q, err := version(s); err == nil {
		return q, nil
	}
	return wire.ShowQuery{}, badInput("at "+quote(s)+" is not a moment in the past", "give 10m, 12:40, 2026-01-31 12:40, a number from search_history, or @N for the file's Nth version")
}

// readPast reads an old version of a file. Its lines do not count as shown lines of the present
// file, and it is never shortened to a diff.
func (c *call) readPast(ctx context.Context, a readArgs, at string) (*mcp.CallToolResult, error) {
	q, err := moment(at, time.Now())
	if err != nil {
		return nil, err
	}
	q.Path = []byte(a.rel)
	var v wire.Version
	b, err := c.s.backend.ask(ctx, wire.MShow, q, nil, &v)
	switch {
	case errors.Is(err, wire.ErrNotFound) && wire.Hint(err) == "":
		return nil, wire.Errorf(wire.ErrNotFound, "search_history path_filter="+quote(a.rel)+" lists the existing versions", "%v", err)
	case err != nil:
		return nil, err
	case len(v.Target) > 0:
		return textResult(fmt.Sprintf("[symbolic link to %s]", quote(string(v.Target)))), nil
	case v.NoContent != "":
		return nil, wire.Errorf(wire.ErrNotFound, "search_history path_filter="+quote(a.rel)+" lists its other versions", "version %d of %s has no content: %s", v.Seq, quote(a.rel), v.NoContent)
	case text.Binary(b):
		return nil, wire.Errorf(wire.ErrBinary, "restore it with revert_file or restore", "version %d of %s is binary (%d bytes)", v.Seq, quote(a.rel), len(b))
	}
	b, _ = text.Shown(b)
	limit := a.limit
	p := c.s.measure(b, a.offset, a.limit, c.s.most(ctx))
	version := fmt.Sprintf("[version %d of %s, %s]", v.Seq, quote(a.rel), v.Time.Local().Format("2006-01-02 15:04:05"))
	if p.long || a.byteOffset > 0 {
		part, notes, err := longPart(a, b, c.s.most(ctx), fmt.Sprintf(" at=%d", v.Seq))
		if err != nil {
			return nil, err
		}
		return compose(wire.ReadAnswer{}, part, append([]string{version}, notes...)...).result(), nil
	}
	if p.limit > 0 {
		limit = p.limit
	}
	part, ok := lines(b, max(a.offset, 1), limit)
	if !ok {
		return nil, badInput(fmt.Sprintf("offset %d is beyond the end: %s had %d lines", a.offset, quote(a.rel), text.Lines(b)), "")
	}
	notes := []string{version}
	if more := p.nextNote(a.rel, a.offset); more != "" {
		notes = append(notes, strings.TrimSuffix(more, "]")+fmt.Sprintf(" at=%d]", v.Seq))
	}
	return compose(wire.ReadAnswer{}, part, notes...).result(), nil
}
