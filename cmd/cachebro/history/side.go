package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/leaf/gitdir"
	"cachebro/store/undo/apply"
	"cachebro/store/wire"
)

// side is a plan in one history: the project's, or the user's own, which contains what watched
// commands changed outside of projects.
type side struct {
	t     cli.Target
	c     *wire.Client
	plan  wire.Plan
	res   apply.Result
	newer bool // the plan undoes an action that is newer than the project's last one
}

// outsideWithin bounds how long the daemon of the user's own history may take to make its plan.
const outsideWithin = 2 * time.Minute

// planOutside asks the user's own history for the plan that goes with the project's plan, which is
// here. It returns nil if none is needed. none is the error if the project has no plan. planOutside
// first finishes the interrupted plans of the user's own history. left is the number of files that
// these leave alone, plus one for each request that fails, because changes may then remain.
func planOutside(ctx context.Context, e *cli.Env, own cli.Target, r wire.PlanRequest, here wire.Plan, none error, f planFlags) (outside *side, left int) {
	concerned := own.Root != wire.OutsideRoot && !*f.inside && !f.git
	ofActor := len(r.Paths) == 0 && len(r.Edits) == 0 && r.Elsewhere == nil && r.GitOp == 0
	if !concerned || !ofActor || none != nil && !errors.Is(none, wire.ErrNotFound) {
		return nil, 0
	}
	t := cli.Target{Root: wire.OutsideRoot}
	if state, err := e.Paths().State(t.Root); err != nil || !cli.IsDir(state) {
		return nil, 0
	}
	ask := wire.PlanRequest{Kind: r.Kind, Merge: r.Merge, Force: r.Force, DryRun: r.DryRun, ProjectPlan: here.ID}
	if len(here.Steps) == 0 {
		ask.ProjectPlan = ""
	}
	asks := []wire.PlanRequest{ask}
	switch {
	case r.Kind == "redo":
		asks[0].ProjectPlan = here.Of
		if here.Of == "" {
			return nil, 0
		}
	case r.Kind != "undo" || r.Agent != "" || r.PID != 0:
		return nil, 0
	case r.ToolCall != "":
		asks[0].ToolCall = r.ToolCall
	case r.Session != "" || r.Prompt != "":
		asks[0].Session, asks[0].Prompt = here.Session, here.Prompt
		if none != nil {
			reason := wire.AsError(none)
			asks[0].Session, asks[0].Prompt = reason.Session, reason.Prompt
		}
		if asks[0].Session == "" && asks[0].Prompt == "" {
			return nil, 0
		}
	case r.Last || r.Action != 0:
		asks = nil
		if here.ActionKey != "" {
			with := ask
			with.ActionKey = here.ActionKey
			asks = append(asks, with)
		}
		if r.Last {
			last := ask
			last.Last, last.ProjectPlan = true, ""
			last.Since, last.Project = here.ActionEnd, own.Root
			asks = append(asks, last)
		}
	case !r.Since.IsZero():
		asks[0].Since, asks[0].Project = r.Since, own.Root
	}
	asking, cancel := context.WithTimeout(ctx, outsideWithin)
	defer cancel()
	c, err := e.Connect(asking, t.Root)
	if err == nil && !r.DryRun {
		_, left, err = ResumeOpen(ctx, e, t, c)
	}
	if err != nil {
		c.Close()
		fmt.Fprintf(e.Stderr, "note: changes outside of the project were not undone: %s\n", cli.OneLine(err.Error()))
		return nil, left + 1
	}
	for _, q := range asks {
		if q.Session != "" { // the user's own history may not know the session yet
			_, _ = c.Call(asking, wire.MSession, wire.SessionEvent{Event: "lost", Session: q.Session}, nil, nil)
		}
		s := &side{t: t, c: c, newer: q.Last}
		s.plan, err = wire.Call[wire.Plan](asking, c, wire.MPlan, q)
		if err == nil && !s.isEmpty() {
			return s, left
		}
		if err != nil && !errors.Is(err, wire.ErrNotFound) {
			fmt.Fprintf(e.Stderr, "note: changes outside of the project were not undone: %s\n", cli.OneLine(err.Error()))
			left++
		}
	}
	c.Close()
	return nil, left
}

// lastOf replaces "last" in a request by the id of the newest session or prompt, if that session or
// prompt changed files only outside the project. The project's history then does not contain it.
func lastOf(ctx context.Context, e *cli.Env, t cli.Target, c *wire.Client, r *wire.PlanRequest, f planFlags) {
	if r.Session != "last" && r.Prompt != "last" || t.Root == wire.OutsideRoot || *f.inside {
		return
	}
	if state, err := e.Paths().State(wire.OutsideRoot); err != nil || !cli.IsDir(state) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, outsideWithin)
	defer cancel()
	there, err := e.Connect(ctx, wire.OutsideRoot)
	if err != nil {
		there.Close()
		return // reported when the plan is made
	}
	defer there.Close()
	prompts := r.Prompt == "last"
	works := func(a wire.Actor) bool { return slices.Contains(e.Paths().SessionProjects(a.Session), t.Root) }
	out, found, err := newestDone(ctx, there, func(a wire.Actor) bool { return a.Session != "" && (a.Prompt != "" || !prompts) && works(a) })
	if err != nil || !found {
		return
	}
	here, found, err := newestDone(ctx, c, func(a wire.Actor) bool { return a.Session != "" && (a.Prompt != "" || !prompts) })
	if err != nil || found && !out.Time.After(here.Time) {
		return
	}
	if prompts {
		r.Prompt = out.Actor.Prompt
	} else {
		r.Session = out.Actor.Session
	}
}

// newestDone returns the newest version whose actor matches. It skips versions made by undos and
// restores of the asking session, but not versions that have been undone since.
func newestDone(ctx context.Context, c *wire.Client, by func(wire.Actor) bool) (wire.Version, bool, error) {
	for q := (wire.LogQuery{NotOwn: true}); ; {
		page, err := wire.Call[wire.LogAnswer](ctx, c, wire.MLog, q)
		if err != nil {
			return wire.Version{}, false, err
		}
		for _, v := range page.Versions {
			if by(v.Actor) {
				return v, true, nil
			}
			q.Before = v.Seq
		}
		if !page.More || len(page.Versions) == 0 {
			return wire.Version{}, false, nil
		}
	}
}

// isEmpty reports whether a plan neither changes nor names anything.
func (s *side) isEmpty() bool {
	return len(s.plan.Steps)+len(s.plan.Conflicts)+len(s.plan.Lost) == 0
}

// giveUp tells the daemon that a plan has ended and no step of it was done.
func (s *side) giveUp(ctx context.Context) {
	_, _ = s.c.Call(context.WithoutCancel(ctx), wire.MPlanDone, wire.PlanDone{ID: s.plan.ID, Finished: true}, nil, nil)
}

func (s *side) show(e *cli.Env, w io.Writer, f planFlags) error {
	if f.git { // undoGit has already handled git's own files
		own := func(x wire.Conflict) bool { _, _, ok := gitdir.Split(string(x.Path)); return ok }
		s.plan.Git = ""
		s.plan.Conflicts = slices.DeleteFunc(s.plan.Conflicts, own)
		s.plan.Lost = slices.DeleteFunc(s.plan.Lost, own)
	}
	shown := s.plan
	if *f.dryRun || !*f.yes { // also list files that are left alone because a process has them open for writing
		if err := apply.Preview(s.t.Base(), &shown, *f.force); err != nil {
			return err
		}
		if *f.dryRun {
			s.plan = shown
		}
	}
	if s.t.Root == wire.OutsideRoot {
		shown = absolute(shown)
	}
	showPlan(e, w, shown)
	return nil
}

// absolute returns a plan of the user's own history with absolute paths.
func absolute(p wire.Plan) wire.Plan {
	p.Title = "outside of the project: " + p.Title
	p.Conflicts, p.Lost = absolutePaths(p.Conflicts), absolutePaths(p.Lost)
	// The history does not contain the parent directories of a changed file, so the plan would make
	// them. Most of them still exist.
	p.Steps = slices.DeleteFunc(slices.Clone(p.Steps), func(s wire.PlanStep) bool {
		return s.Do == "mkdir" && cli.IsDir("/"+string(s.Path))
	})
	for i := range p.Steps {
		p.Steps[i].Path, p.Steps[i].To = absolutePath(p.Steps[i].Path), absolutePath(p.Steps[i].To)
	}
	return p
}

func absolutePath(b []byte) []byte {
	if len(b) == 0 {
		return b
	}
	return append([]byte("/"), b...)
}

func absolutePaths(all []wire.Conflict) []wire.Conflict {
	all = slices.Clone(all)
	for i := range all {
		all[i].Path, all[i].To = absolutePath(all[i].Path), absolutePath(all[i].To)
	}
	return all
}

// printFailures prints what the plan did not do, with paths for people.
func (s *side) printFailures(e *cli.Env) {
	failed, left := s.res.Failed, s.res.Left
	if s.t.Root == wire.OutsideRoot {
		failed, left = absolutePaths(failed), absolutePaths(left)
	}
	printFailures(e, failed, left)
}

func printFailures(e *cli.Env, failed, left []wire.Conflict) {
	listByReason(e.Stderr, "not done:", failed, whyLeft)
	listByReason(e.Stderr, "partly done:", left, whyLeft)
}

// planRoots returns the roots of all histories that have a plan.
func planRoots(sides []*side) (roots []string) {
	for _, s := range sides {
		roots = append(roots, s.t.Root)
	}
	return roots
}
