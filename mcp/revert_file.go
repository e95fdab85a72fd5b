package mcp

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"cachebro/store/wire"
)

// revertFileArgs are the arguments of revert_file.
type revertFileArgs struct {
	Path    string `json:"path,required"`
	Steps   int    `json:"steps_back"`
	Version string `json:"version"`
}

var revertFileTool = &tool{
	name: "revert_file", title: "Revert file", profile: ProfileSafety, destroys: true,
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
		cut, err := c.finishCut(ctx)
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
