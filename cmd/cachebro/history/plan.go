package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"sync"
	"syscall"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/fusefs/outside"
	"cachebro/store/leaf/text"
	"cachebro/store/undo/apply"
	"cachebro/store/wire"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// planFlags are common to all commands that carry out plans.
type planFlags struct {
	dryRun, yes, json, merge, force *bool
	git                             bool  // git's own files have already been undone
	gitOnly                         bool  // say nothing if no other files have to be undone
	inside                          *bool // do not change files outside the project
}

func addPlanFlags(fs *pflag.FlagSet, conflicts bool) planFlags {
	f := planFlags{merge: new(bool), force: new(bool), inside: new(bool)}
	f.dryRun = fs.BoolP("dry-run", "n", false, "only show what would be done")
	f.yes = fs.BoolP("yes", "y", false, "do not ask")
	f.json = fs.Bool("json", false, "print the plan and what was done as JSON")
	if conflicts {
		f.merge = fs.Bool("merge", false, "merge with what others have changed since, if the merge is clean")
		f.force = fs.Bool("force", false, "also overwrite files that others have changed since, or have open")
	}
	return f
}

// errPartly wraps an error that ended a plan after some of its steps.
type errPartly struct{ error }

func (e errPartly) Unwrap() error { return e.error }

// planStatus converts the error of a command that carries out plans. The exit status becomes 0 if
// everything was done, 1 if something was left unchanged, and 2 if nothing was done.
func planStatus(err error) error {
	var status cli.ExitStatus
	var partly errPartly
	switch {
	case err == nil, errors.As(err, &status):
		return err
	case errors.As(err, &partly):
		return partly.error
	}
	return cli.NothingDone(err)
}

// doesPlan is cli.Does for a command that carries out plans.
func doesPlan(cmd *cobra.Command, run func(ctx context.Context, args []string) error) *cobra.Command {
	return cli.Does(cmd, func(ctx context.Context, args []string) error {
		if err := emptyArgument(cmd, args); err != nil {
			return err
		}
		return planStatus(run(ctx, args))
	})
}

// emptyArgument returns an error if an argument or the value of a flag is empty, probably because a
// variable of a script is not set. An empty path would mean the whole project, and an empty
// selection the last action.
func emptyArgument(cmd *cobra.Command, args []string) (err error) {
	hint := "cachebro help " + cmd.Name()
	if slices.Contains(args, "") {
		return cli.UsageHint(hint, "%s: an argument is empty", cmd.Name())
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.Type() == "string" && f.Value.String() == "" {
			err = cli.UsageHint(hint, "%s: the value of --%s is empty", cmd.Name(), f.Name)
		}
	})
	return err
}

// leftOver returns exit status 1 if a plan left paths unchanged, otherwise nil.
func leftOver(left int) error {
	if left > 0 {
		return cli.ExitStatus(1) // the conflicts have been printed
	}
	return nil
}

// runPlan requests a plan from the daemon, shows it, asks for confirmation, and carries it out
// through the mountpoint. For the exit status see planStatus.
func runPlan(ctx context.Context, e *cli.Env, t cli.Target, c *wire.Client, r wire.PlanRequest, f planFlags) error {
	return runPlanWith(ctx, e, t, c, r, nil, f)
}

// noteAfter is how long a plan may take before noteWaiting prints a note.
const noteAfter = time.Second

// noteWaiting prints a note if a plan waits longer than noteAfter for the history to store earlier
// changes. The caller calls done when it has the plan.
func noteWaiting(ctx context.Context, e *cli.Env, c *wire.Client) (done func()) {
	ctx, cancel := context.WithCancel(ctx)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(noteAfter):
		}
		// Ask for the status, because any request about the history would wait as well.
		st, err := wire.Call[wire.Status](ctx, c, wire.MStatus, wire.Empty{})
		if err == nil && st.Store.Lag > 0 {
			fmt.Fprintf(e.Stderr, "note: waiting until the history has stored about %s of newer changes\n", text.Count(st.Store.Lag, "record"))
		}
	})
	return func() {
		cancel()
		waiting.Wait()
	}
}

// runPlanWith is runPlan with file contents that are sent with the request.
func runPlanWith(ctx context.Context, e *cli.Env, t cli.Target, c *wire.Client, r wire.PlanRequest, body []byte, f planFlags) error {
	r.Merge, r.Force, r.DryRun = *f.merge, *f.force, *f.dryRun
	endNote := noteWaiting(ctx, e, c) // the request for interrupted plans may wait as well
	defer endNote()
	left := 0
	if !r.DryRun && r.Kind != "rollback" {
		finished, n, err := ResumeOpen(ctx, e, t, c)
		if err != nil {
			return err
		}
		left = n
		if repeats(r, finished) {
			outside, err := resumeOutside(ctx, e)
			if *f.json {
				err = errors.Join(err, printPlanJSON(e, finished[len(finished)-1:]))
			}
			return errors.Join(err, leftOver(left+outside))
		}
	}
	apply.Settle(t.Base())
	lastOf(ctx, e, t, c, &r, f)
	endProgress := e.WatchTree(ctx, c)
	here := &side{t: t, c: c}
	_, err := c.Call(ctx, wire.MPlan, r, body, &here.plan)
	endProgress()
	endNote()
	out := e.Stdout
	if *f.json {
		out = io.Discard
	}
	var sides []*side
	if err == nil {
		sides = append(sides, here)
	}
	outside, unanswered := planOutside(ctx, e, t, r, here.plan, err, f)
	left += unanswered
	if outside != nil {
		defer outside.c.Close()
		if outside.newer && err == nil && len(here.plan.Steps) > 0 { // a plan without steps is kept, because it lists what is lost
			here.giveUp(ctx)
			sides = nil
		}
		sides, err = append(sides, outside), nil
	}
	if err != nil {
		if none := wire.AsError(err); len(r.Paths) == 0 {
			noteOthers(ctx, e, out, t, none.Session, none.Prompt)
		}
		return err
	}
	steps := 0
	if f.gitOnly && !slices.ContainsFunc(sides, func(s *side) bool { return !s.isEmpty() }) {
		out = io.Discard
	}
	for _, s := range sides {
		if err := s.show(e, out, f); err != nil {
			return err
		}
		left += len(s.plan.Conflicts) + len(s.plan.Lost)
		steps += len(s.plan.Steps)
	}
	if len(r.Paths) == 0 {
		noteOthers(ctx, e, out, t, here.plan.Session, here.plan.Prompt, planRoots(sides)...)
	}
	if *f.dryRun || steps == 0 {
		if steps == 0 {
			fmt.Fprintln(out, "nothing to do")
			if here.plan.Cut != nil && !r.DryRun {
				if err := rolledBack(ctx, t, c, here.plan); err != nil {
					return err
				}
			}
		}
		if *f.json {
			err = printPlanJSON(e, sides)
		}
		return errors.Join(err, leftOver(left))
	}
	if !*f.yes {
		if err := confirmSides(ctx, e, sides); err != nil {
			return err
		}
	}
	result, err := applySides(ctx, e, sides, *f.force)
	back := reverseCommand(sides, *f.merge)
	if *f.json {
		err = errors.Join(err, printPlanJSON(e, sides))
	} else if result.changes > 0 && ctx.Err() != nil {
		fmt.Fprintf(out, "stopped: %d of %s done (%s reverses these)\n", result.changes, text.Count(steps, "change"), back)
	} else if result.changes > 0 {
		fmt.Fprintf(out, "done: %s (%s reverses this)\n", text.Count(result.files, "file"), back)
	}
	if err != nil {
		return err
	}
	return leftOver(left + result.left)
}

// confirmSides asks whether to carry out plans. If the answer is no, it abandons them and returns an
// error.
func confirmSides(ctx context.Context, e *cli.Env, sides []*side) error {
	files := 0
	for _, s := range sides {
		files += apply.Files(s.plan)
	}
	err := e.Confirm(fmt.Sprintf("%s: change %s?", sides[0].plan.Kind, text.Count(files, "file")))
	if err != nil {
		for _, s := range sides {
			s.giveUp(ctx)
		}
	}
	return err
}

// applied counts what plans have changed and left unchanged.
type applied struct{ changes, files, left int }

// applySides carries out plans one after the other. If one is stopped, it abandons the rest.
func applySides(ctx context.Context, e *cli.Env, sides []*side, force bool) (a applied, err error) {
	for _, s := range sides {
		if len(s.plan.Steps) == 0 {
			continue
		}
		if err != nil {
			s.giveUp(ctx)
			continue
		}
		s.res, err = Apply(ctx, e, s.t, s.c, s.plan, force)
		s.printFailures(e)
		a.changes += len(s.res.Done)
		a.files += FilesOf(s.plan, s.res.Done)
		a.left += len(s.res.Failed) + len(s.res.Left)
	}
	if err != nil && a.changes > 0 {
		err = errPartly{err}
	}
	return a, err
}

// reverseCommand returns the command that reverses the plans: redo, or undo if they are themselves a
// redo. A redo that merged is reversed by redo --plan, because undo would not find the content that
// it expects.
func reverseCommand(sides []*side, merged bool) string {
	command := "cachebro redo"
	switch {
	case sides[0].plan.Kind == "redo" && merged:
		command += " --plan " + sides[0].plan.ID
	case sides[0].plan.Kind == "redo":
		command = "cachebro undo"
	}
	if sides[0].t.Root == wire.OutsideRoot {
		command += " --dir /"
	}
	return command
}

// Apply carries out the steps of a plan and reports them to the daemon's journal. If the project is
// not mounted, the recorder of cachebro run (the net) records the changes.
func Apply(ctx context.Context, e *cli.Env, t cli.Target, c *wire.Client, plan wire.Plan, force bool) (res apply.Result, err error) {
	work := apply.Work{Force: force}
	if t.Point == "" {
		work.Watched = true
		start := func() error { return outside.Start(e.Paths(), e.Exe, e.Vars) }
		watched, werr := outside.Watched(e.Paths(), e.Exe, start, func() error {
			res, err = apply.CarryOut(ctx, c.Call, t.Base(), plan, work)
			return nil
		})
		if watched {
			return res, errors.Join(err, werr)
		}
		work.Watched = false
	}
	return apply.CarryOut(ctx, c.Call, t.Base(), plan, work)
}

// letters maps each kind of step to its letter in a preview, as in git status.
var letters = map[string]string{"write": "M", "delete": "D", "mkdir": "A", "rmdir": "D", "rename": "R", "symlink": "L", "chmod": "m", "link": "=", "exchange": "X"}

// StepLetter returns git status's letter for what a step does to its file.
func StepLetter(s wire.PlanStep) string {
	if s.Do == "write" && s.Expect == "absent" {
		return "A"
	}
	return letters[s.Do]
}

// showPlan prints the preview: one line per file, then the conflicts.
func showPlan(e *cli.Env, w io.Writer, plan wire.Plan) {
	p := e.Paint()
	if plan.Title != "" {
		fmt.Fprintln(w, p.Bold(cli.OneLine(plan.Title)))
	}
	added, removed := 0, 0
	for _, s := range plan.Steps {
		added, removed = added+s.Added, removed+s.Removed
	}
	listSteps(w, p, plan.Steps)
	listByReason(w, "  "+p.Red("conflict"), plan.Conflicts, func(x wire.Conflict) string { return ConflictText(x, e) })
	listByReason(w, "  "+p.Red("lost"), plan.Lost, whyLeft)
	if n := apply.Files(plan); n > 1 {
		fmt.Fprintln(w, Counts(p, n, added, removed, plan.Partly))
	}
	gitHint(e, w, plan)
}

// maxSteps bounds the lines of a preview. maxLeftPaths bounds the paths listed for one reason.
const (
	maxSteps     = 24
	maxLeftPaths = 8
)

// listSteps writes a line for each step. If there are many, files of a directory that change in the
// same way share a line, as in log.
func listSteps(w io.Writer, p cli.Paint, steps []wire.PlanStep) {
	if len(steps) <= maxSteps {
		for _, s := range steps {
			fmt.Fprintln(w, stepLine(p, s))
		}
		return
	}
	change := map[string]string{"A": wire.FileAdded, "M": wire.FileModified, "D": wire.FileDeleted}
	var files []wire.ActionFile
	var other []wire.PlanStep
	for _, s := range steps {
		c := change[StepLetter(s)]
		switch {
		case s.Do == "mkdir" || s.Do == "rmdir":
			files = append(files, wire.ActionFile{Path: s.Path, Change: c, Dir: true})
		case c == "" || len(s.To) > 0:
			other = append(other, s)
		default:
			files = append(files, wire.ActionFile{Path: s.Path, Change: c, Added: s.Added, Removed: s.Removed, Counted: true})
		}
	}
	lines := wire.FoldFiles(withoutParents(files), maxSteps-min(len(other), maxSteps/2), func(wire.ActionFile) bool { return false })
	shown, listed := 0, 0
	for ; shown < len(other) && shown < maxSteps/2; shown++ {
		fmt.Fprintln(w, stepLine(p, other[shown]))
	}
	for _, f := range lines[:min(len(lines), maxSteps-shown)] {
		fmt.Fprintln(w, "  "+fileLine(p, f))
		listed++
	}
	if left := len(other) - shown + len(lines) - listed; left > 0 {
		fmt.Fprintln(w, p.Dim(fmt.Sprintf("  … %d more (--dry-run --json lists all)", left)))
	}
}

// withoutParents removes the directories that contain another file of the list.
func withoutParents(all []wire.ActionFile) []wire.ActionFile {
	filled := map[string]bool{}
	for _, f := range all {
		for at := path.Dir(string(f.Path)); at != "." && !filled[at]; at = path.Dir(at) {
			filled[at] = true
		}
	}
	return slices.DeleteFunc(all, func(f wire.ActionFile) bool { return f.Dir && filled[string(f.Path)] })
}

func stepLine(p cli.Paint, s wire.PlanStep) string {
	f := wire.ActionFile{Path: s.Path, Dir: s.Do == "mkdir" || s.Do == "rmdir"}
	if len(s.To) > 0 {
		f.From, f.Path = s.Path, s.To
		f.Dir = s.ExpMode&syscall.S_IFMT == syscall.S_IFDIR && s.Do == "rename"
	}
	line := fmt.Sprintf("  %s %s", StepLetter(s), namesOf(f))
	switch {
	case s.Below > 0: // files that move with their directory have no lines of their own
		line += "  with " + text.Count(s.Below, "file")
	case s.Added+s.Removed > 0:
		line += "  " + p.Green(fmt.Sprintf("+%d", s.Added)) + " " + p.Red(fmt.Sprintf("-%d", s.Removed))
	case s.Do == "chmod" && s.Mtime != 0 && s.Mode == s.ExpMode:
		line += "  time"
	case s.Do == "chmod":
		line += fmt.Sprintf("  mode %04o", s.Mode&0o7777)
	}
	return line
}

// listByReason lists paths that are left unchanged or cannot be restored exactly, with the reason.
// If many have the same reason, paths in one directory share a line.
func listByReason(w io.Writer, what string, all []wire.Conflict, why func(wire.Conflict) string) {
	same := map[string][]wire.ActionFile{}
	for _, x := range all {
		reason := why(x)
		f := wire.ActionFile{Path: x.Path}
		if len(x.To) > 0 {
			f.From, f.Path = x.Path, x.To
		}
		same[reason] = append(same[reason], f)
	}
	for _, x := range all {
		reason := why(x)
		files := same[reason]
		delete(same, reason)
		if len(files) > maxLeftPaths {
			files = wire.FoldFiles(files, maxLeftPaths, func(wire.ActionFile) bool { return false })
		}
		for _, f := range files {
			name := namesOf(f)
			if f.Below > 0 {
				name += " (" + text.Count(f.Below, "file") + ")"
			}
			fmt.Fprintf(w, "%s %s: %s\n", what, name, reason)
		}
	}
}

// whyLeft returns the reason of a conflict, without its author.
func whyLeft(x wire.Conflict) string { return cli.OneLine(x.Why) }

// ConflictText returns why a path is left unchanged, who changed it, and when.
func ConflictText(x wire.Conflict, e *cli.Env) string {
	text := cli.OneLine(x.Why)
	if a := cli.Who(x.Actor); a != "-" {
		text += " by " + a
	}
	if !x.Time.IsZero() {
		text += " at " + cli.Stamp(x.Time, e.Now())
	}
	return text
}

// printPlanJSON prints the first plan as an object. The plan for files outside of the project, if
// any, is its member "outside".
func printPlanJSON(e *cli.Env, sides []*side) error {
	out := planObject(sides[0].plan, sides[0].res)
	if len(sides) > 1 {
		out["outside"] = planObject(sides[1].plan, sides[1].res)
	}
	return e.PrintJSON(out)
}

func planObject(plan wire.Plan, res apply.Result) map[string]any {
	out := plannedObject(plan)
	out["id"] = plan.ID
	out["done"] = res.Done
	out["failed"] = conflictObjects(res.Failed)
	out["left"] = conflictObjects(res.Left)
	return out
}

// plannedObject returns the part of planObject that is known before the plan is carried out.
func plannedObject(plan wire.Plan) map[string]any {
	steps := cli.Objects(plan.Steps, func(s wire.PlanStep) map[string][]byte {
		return map[string][]byte{"path": s.Path, "to": s.To, "target": s.Target}
	})
	out := map[string]any{"kind": plan.Kind, "title": plan.Title, "steps": steps, "conflicts": conflictObjects(plan.Conflicts), "lost": conflictObjects(plan.Lost)}
	if plan.Partly {
		out["partly"] = true // only the first steps have line counts
	}
	return out
}

func conflictObjects(all []wire.Conflict) []map[string]any {
	return cli.Objects(all, func(x wire.Conflict) map[string][]byte {
		return map[string][]byte{"path": x.Path, "to": x.To}
	})
}

// FilesOf counts the files that the steps in done changed.
func FilesOf(plan wire.Plan, done []int) int {
	did := make(map[int]bool, len(done))
	for _, n := range done {
		did[n] = true
	}
	plan.Steps = slices.DeleteFunc(slices.Clone(plan.Steps), func(s wire.PlanStep) bool { return !did[s.N] })
	return apply.Files(plan)
}
