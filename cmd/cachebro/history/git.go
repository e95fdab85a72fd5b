package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store"
	"cachebro/store/leaf/text"
	"cachebro/store/undo/gitback"
	"cachebro/store/wire"
)

// operationNumber parses "g178", the number of a git operation as log prints it.
func operationNumber(arg string) (uint64, bool) {
	s, ok := strings.CutPrefix(arg, "g")
	n, err := strconv.ParseUint(s, 10, 64)
	return n, ok && err == nil && n > 0
}

// undoGit undoes an actor's changes to git's own files, then the same actor's changes to other
// files.
func undoGit(ctx context.Context, e *cli.Env, t cli.Target, c *wire.Client, r wire.PlanRequest, f planFlags) error {
	if len(r.Paths) > 0 {
		return e.Usagef("%s: --git takes no path, because it undoes changes of a whole repository", r.Kind)
	}
	at := gitback.Place{Base: t.Base(), Env: e.Vars}
	r.DryRun = *f.dryRun
	var plan wire.GitPlan
	objects := 0
	look := func() error {
		var err error
		plan, err = wire.Call[wire.GitPlan](ctx, c, wire.MGitPlan, r)
		if err == nil {
			at.Kept = plan.Kept
			objects, err = at.Missing(ctx, plan)
		}
		return err
	}
	for {
		if err := look(); err != nil {
			return err
		}
		if !r.Last || plan.ID == 0 || objects+len(plan.Steps)+len(plan.Conflicts)+len(plan.Lost) > 0 {
			break
		}
		r.GitBefore = plan.ID // git still has every object that this operation removed, so try the previous one
	}
	worktrees := worktreesOf(t.Base(), plan)
	if err := checkWorktrees(ctx, e, t.Base(), plan, worktrees); err != nil {
		return err
	}
	out := e.Stdout
	if *f.json {
		out = io.Discard
	}
	showPlan(e, out, asPlan(plan))
	if objects > 0 {
		fmt.Fprintf(out, "  A %s with missing git objects\n", text.Count(objects, "file"))
	}
	for _, w := range worktrees {
		by := "worktree remove"
		if super, err := w.super(ctx, e); err == nil && super != "" {
			by = "submodule deinit"
		}
		fmt.Fprintf(out, "  D %s/  git %s\n", cli.Quote(string(w)), by)
	}
	left := len(plan.Conflicts) + len(plan.Lost)
	does := len(plan.Steps)+objects > 0
	if does && !*f.dryRun && !*f.yes {
		if err := e.Confirm(fmt.Sprintf("%s: change the repository?", r.Kind)); err != nil {
			return err
		}
	}
	if len(worktrees) > 0 && !*f.dryRun {
		if err := removeWorktrees(ctx, e, t.Base(), plan, worktrees); err != nil {
			return err
		}
		if r.Last { // from now on give the operation's number, because the last one is now git worktree remove
			r.GitOp, r.Last = plan.ID, false
		}
		if err := look(); err != nil {
			return errPartly{err}
		}
		left = len(plan.Conflicts) + len(plan.Lost)
	}
	if *f.json {
		if err := e.PrintJSON(plannedObject(asPlan(plan))); err != nil {
			return err
		}
	}
	files := func() error { return filesToo(ctx, e, t, c, r, f, plan, does || left > 0) }
	if !does || *f.dryRun || len(plan.Steps)+objects == 0 {
		return errors.Join(files(), leftOver(left))
	}
	res, ferr, err := at.Plan(ctx, plan, files, func(err error) bool { return errors.As(err, new(cli.ExitStatus)) })
	printFailures(e, res.Failed, nil)
	if errors.Is(err, gitback.ErrLocked) {
		err = cli.Hintf("wait for git to finish; if no git is running, remove the lock", "%v", err)
	}
	done := len(res.Done)+res.Objects > 0
	if err != nil && done {
		err = errPartly{err}
	}
	if err == nil && (ferr == nil || done) {
		message := "done: " + text.Count(FilesOf(asPlan(plan), res.Done), "file") + " of git's own"
		if res.Objects > 0 {
			message += ", " + text.Count(res.Objects, "file") + " with objects"
		}
		fmt.Fprintln(out, message)
	}
	return cmp.Or(err, ferr, leftOver(left+len(res.Failed)))
}

// filesToo undoes what the actor of the git operation changed in other files. known is whether the
// plan for git's own files contains anything.
func filesToo(ctx context.Context, e *cli.Env, t cli.Target, c *wire.Client, r wire.PlanRequest, f planFlags, plan wire.GitPlan, known bool) error {
	switch {
	case plan.PID != 0 && (r.Last || r.GitOp != 0):
		r.Last, r.GitOp = false, 0
		r.PID, r.Since = plan.PID, plan.Since
	case r.GitOp != 0 && !known:
		return cli.Hintf("cachebro log shows the numbers", "g%d is not a git operation that could be undone", r.GitOp)
	case r.Last || r.GitOp != 0:
		if !known {
			return cli.Hintf("cachebro log lists the actions; cachebro undo restores files", "no git operation is known that could be undone")
		}
		return nil
	default:
		r.Session, r.Prompt = cmp.Or(plan.Session, r.Session), cmp.Or(plan.Prompt, r.Prompt)
	}
	f.git, f.gitOnly = true, known
	err := runPlan(ctx, e, t, c, r, f)
	if errors.Is(err, wire.ErrNotFound) && known {
		return nil // the actor changed no other file
	}
	return err
}

// asPlan converts a plan for git's own files, so that showPlan can print it.
func asPlan(of wire.GitPlan) wire.Plan {
	p := wire.Plan{Kind: "git", Title: of.Title, Conflicts: of.Conflicts, Lost: of.Lost}
	for i, s := range of.Steps {
		if s.Do == wire.GitUnmake {
			s.Do = store.DoRmdir
		}
		p.Steps = append(p.Steps, wire.PlanStep{N: i, Do: s.Do, Path: s.Path, To: s.To, Target: s.Target, Mode: s.Mode, Expect: s.Now})
	}
	return p
}

// gitHint prints that the plan leaves git's own files alone, and the command that undoes their changes
// too. The command gives the number of the action, because after this undo the last action is the
// undo itself.
func gitHint(e *cli.Env, w io.Writer, plan wire.Plan) {
	if plan.Git == "" {
		return
	}
	command := "the same undo with --git"
	switch {
	case plan.Action != 0:
		command = fmt.Sprintf("cachebro undo %d --git", plan.Action)
	case plan.Prompt != "":
		command = "cachebro undo --prompt " + cli.Arg(plan.Prompt) + " --git"
	case plan.Session != "":
		command = "cachebro undo --session " + cli.Arg(plan.Session) + " --git"
	}
	fmt.Fprintln(w, e.Paint().Dim(fmt.Sprintf("git's own files stay as they are (%s); %s undoes that too", cli.OneLine(plan.Git), command)))
}

func gitLine(p cli.Paint, o wire.GitOp) string {
	return p.Bold(text.Clip(cli.OneLine(o.Command), 60)) + " · " + cli.OneLine(o.Text)
}
