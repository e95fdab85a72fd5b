package history

import (
	"context"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/machines"
	"cachebro/fusefs/mounts"
	"cachebro/store/leaf/limits"
	"cachebro/store/leaf/text"
	"cachebro/store/wire"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// RevertCommand returns the command cachebro revert.
func RevertCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "revert PATH[@VERSION]", Short: "restore an earlier version of a file",
		Long: `Restores the exact bytes and mode of an earlier version. A deleted file is created
again. The revert is recorded as a new version, so nothing is lost.`,
		Example: `  cachebro revert src/main.go            one version back; again for one more
  cachebro revert src/main.go --to @3
  cachebro revert src/main.go@12:40 --dry-run`,
		Args: e.Args(1, 1),
	}

	fs := cmd.Flags()
	steps := fs.Int("steps", 1, "how many versions to go back")
	to := fs.String("to", "", "a number of the log, a version of the file (@3, -1), a time or an age")
	f := addPlanFlags(fs, false)
	return doesPlan(cmd, func(ctx context.Context, args []string) error {
		path, v, err := e.SplitVersion(args[0])
		if err != nil {
			return err
		}
		if path == "" {
			return e.Usagef("revert: the file is missing: cachebro revert PATH --to %s", args[0])
		}
		if *to != "" {
			v, err = e.VersionFlag("to", *to, path)
			if err != nil {
				return err
			}
		}
		r := wire.PlanRequest{Kind: "revert", Version: v}
		if cli.IsNewest(v) {
			if *steps < 1 {
				return e.Usagef("revert: --steps %d: want 1 or more", *steps)
			}
			r.Steps = *steps
		} else if fs.Changed("steps") {
			return e.Usagef("revert: give --steps or a version, not both")
		}
		t, c, err := e.Open(ctx, path)
		if err != nil {
			return err
		}
		defer c.Close()
		if len(t.Rel) == 0 {
			return cli.Hintf("cachebro log "+cli.Arg(path), "revert restores one file, and %s is the whole project", cli.Quote(path))
		}
		r.Path = t.Rel
		return runPlan(ctx, e, t, c, r, f)
	})
}

// UndoCommand returns the command cachebro undo.
func UndoCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "undo [NUMBER] [PATH…]", Short: "undo what a prompt, command, session or process did",
		Long: `Undoes all changes by one actor, or all changes since a time: contents, new and deleted
files, renames, modes. It changes a file only if the file is still as that actor left
it. All other files are listed as conflicts. Files that a process has open for writing
are conflicts too (on a mount, --force writes into them). NUMBER is the number of an
action in the log. Without NUMBER and flags that select changes, undo reverses the
newest action that is not an undo, redo, revert or restore. If an agent itself ran one
of these, undoing its session, prompt or tool call reverses that too. A present content
that the history lacks is recorded before it is replaced; if that is impossible (over
` + strconv.Itoa(limits.Content>>20) + ` MiB), the file is left alone.

The exit status is 0 if everything was undone, 1 if something was left alone, which is
then listed, and 2 if nothing was done.

Without --git, git's own files are left alone. With --git, refs, HEAD, the index, the
stash, config, hooks and removed objects are restored as well, by the same rule. Files
that belong together, such as HEAD, the index and the branch, are restored together.

With --machine, the changes to undo are selected in the history of another machine (see
cachebro remote machines). They are undone in the files of this machine that are still
as the other machine left them.

An interrupted undo is finished by the next mount, undo or redo. An undo without NUMBER
and flags then does nothing else. With --rollback, what it had done is reversed instead.`,
		Example: `  cachebro undo                     the newest action of the log
  cachebro undo 178                 the action with that number in the log
  cachebro undo 178 --hunk          choose single hunks of it, as in git add -p
  cachebro undo --prompt last       everything since the last prompt
  cachebro undo --session last --dry-run
  cachebro undo --since 10m 'src/**'
  cachebro undo --git               the last git operation: refs, index, stash
  cachebro undo --git g178          the git operation with that number
  cachebro undo --pid 811`,
		Args: e.Args(0, -1),
	}

	fs := cmd.Flags()
	u := addUnitFlags(fs)
	back := fs.Bool("rollback", false, "reverse what an undo had done before it was killed, instead of finishing it")
	git := fs.Bool("git", false, "also undo changes of git's own files: refs, HEAD, index, stash, config, hooks, objects")
	machine := machines.Flag(fs)
	hunks := fs.Bool("hunk", false, "ask for each hunk of the action whether to undo it")
	f := addPlanFlags(fs, true)
	f.inside = fs.Bool("inside", false, "do not undo changes outside of the project")
	return doesPlan(cmd, func(ctx context.Context, args []string) error {
		var err error
		start := undoDir(e, args)
		r := wire.PlanRequest{Kind: "undo", Session: *u.session, Prompt: *u.prompt, ToolCall: *u.call, Agent: *u.agent, PID: *u.pid, Last: *u.last}
		r.Since, err = e.TimeFlag("since", *u.since, start)
		if err != nil {
			return err
		}
		if r.PID == 0 && cmd.Flags().Changed("pid") { // without a selection, the last action would be undone
			return e.Usagef("undo: --pid 0 names no process")
		}
		r.Last = r.Last || !selects(r)
		t, c, err := e.Open(ctx, start)
		if err != nil {
			return err
		}
		defer c.Close()
		if *back {
			if selects(r) || len(args) > 0 {
				return e.Usagef("undo: --rollback takes no path and no selection, because it reverses the whole undo that was interrupted")
			}
			return rollback(ctx, e, t, c, f)
		}
		for _, a := range args {
			if n, ok := e.Number(a); ok && r.Action == 0 {
				r.Action, r.Last = n, *u.last
				continue
			}
			if n, ok := operationNumber(a); ok && *git && r.GitOp == 0 {
				r.GitOp, r.Last = n, false
				continue
			}
			if !filepath.IsAbs(a) && start != "." {
				return e.Usagef("undo: %s is in another project than %s; give one project's paths at a time", cli.Quote(a), cli.Quote(t.Base()))
			}
			p, err := requested(ctx, e, t, knownHere(c, *machine), a)
			if _, ok := operationNumber(a); ok && err != nil {
				return cli.Hintf("cachebro undo --git "+a+" undoes the git operation with that number", "%v", err)
			}
			if err != nil {
				return err
			}
			r.Paths = append(r.Paths, []byte(p))
		}
		if *machine != "" {
			if *git || *hunks {
				return e.Usagef("undo: --machine cannot be combined with --git or --hunk")
			}
			return elsewhere(ctx, e, t, c, *machine, r, f)
		}
		if *git {
			if *hunks || *f.merge || *f.force {
				return e.Usagef("undo: --git cannot be combined with --hunk, --merge or --force")
			}
			return undoGit(ctx, e, t, c, r, f)
		}
		if *hunks {
			if selects(r) || *f.merge || *f.force {
				return e.Usagef("undo: --hunk can be combined only with an action's number and paths")
			}
			return undoHunks(ctx, e, t, c, r, f)
		}
		return runPlan(ctx, e, t, c, r, f)
	})
}

// knownHere returns the client that knows which names exist in the history of a machine; "" is this
// machine. It is nil if there is none.
func knownHere(c *wire.Client, machine string) *wire.Client {
	if machine != "" {
		return nil
	}
	return c
}

// requested returns a path or glob of the command line, relative to the project's root. A name is a
// path if it has no wildcards or the history knows it. Globs are relative to the working directory,
// as in git. Without a client, names are not checked, because they are those of another machine.
func requested(ctx context.Context, e *cli.Env, t cli.Target, c *wire.Client, given string) (string, error) {
	unknown := func(at cli.Target) error {
		if c == nil {
			return nil
		}
		return e.CheckKnown(ctx, c, at)
	}
	at, err := e.LocateIn(t, given)
	if err == nil && at.Root == t.Root { // it can fail because a symlink has replaced a directory of the path
		err := unknown(at)
		if err == nil || !text.IsGlob(given) {
			return string(at.Rel), err
		}
	}
	p := given
	if text.IsGlob(p) && !strings.Contains(strings.TrimSuffix(p, "/"), "/") {
		p = path.Join("**", p) // matches at any depth, as it would from the root
	}
	if !filepath.IsAbs(p) {
		here, err := e.LocateIn(t, ".")
		if err != nil {
			return "", err
		}
		p = filepath.Join(here.Base(), string(here.Rel), p)
	}
	if !mounts.Within(p, t.Base()) {
		return "", cli.UsageHint("cachebro "+e.Cmd.Name()+" --dir / "+cli.Arg(given), "%s is not in the project %s", cli.Quote(given), cli.Quote(t.Base()))
	}
	at = t
	at.Rel = []byte(mounts.Rel(p, t.Base()))
	if text.IsGlob(given) {
		return string(at.Rel), nil
	}
	return string(at.Rel), unknown(at)
}

// undoDir returns a directory in the project that an undo applies to. If the first absolute path is
// in another project than the working directory, undoDir returns the base of that project.
// Otherwise it returns ".".
func undoDir(e *cli.Env, args []string) string {
	here, none := e.Locate(".")
	for _, a := range args {
		if !filepath.IsAbs(a) {
			continue
		}
		t, err := e.Locate(a)
		if err == nil && (none != nil || t.Root != here.Root) {
			return t.Base()
		}
		break
	}
	return "."
}

type unitFlags struct {
	session, prompt, call, since, agent *string
	pid                                 *uint32
	last                                *bool
}

func addUnitFlags(fs *pflag.FlagSet) unitFlags {
	return unitFlags{
		last:    fs.Bool("last", false, "the last action (the default)"),
		prompt:  fs.String("prompt", "", "a prompt's id, or last"),
		session: fs.String("session", "", "a session's id, or last"),
		call:    fs.String("tool-call", "", "a tool call's id"),
		agent:   fs.String("agent", "", "a sub-agent's id"),
		pid:     fs.Uint32("pid", 0, "a process and its descendants"),
		since:   fs.String("since", "", "after this time (12:40) or within this age (10m)"),
	}
}

// selects reports whether a request selects the changes to undo by actor or time.
func selects(r wire.PlanRequest) bool {
	return r.Session+r.Prompt+r.ToolCall+r.Agent != "" || r.PID != 0 || !r.Since.IsZero()
}

// RedoCommand returns the command cachebro redo.
func RedoCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "redo", Short: "reverse an undo, revert or restore",
		Example: `  cachebro redo
  cachebro redo --plan ID --dry-run`,
		Args: e.Args(0, 0),
	}

	fs := cmd.Flags()
	plan := fs.String("plan", "", "the undo, revert or restore to reverse, by the id that log shows in braces (default: the last one)")
	f := addPlanFlags(fs, true)
	return doesPlan(cmd, func(ctx context.Context, _ []string) error {
		t, c, err := e.Open(ctx, ".")
		if err != nil {
			return err
		}
		defer c.Close()
		return runPlan(ctx, e, t, c, wire.PlanRequest{Kind: "redo", Plan: *plan}, f)
	})
}

// RestoreCommand returns the command cachebro restore.
func RestoreCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "restore [PATH…] --at TIME", Short: "bring files or the whole tree back to a moment",
		Long: `Gives files the state that they had at a moment, whoever changed them since. Only files
that differ are written. Without a PATH, the whole tree is restored. A PATH may be a glob
such as 'src/*.go'.

With --machine, files get the state that they had on another machine (see cachebro
remote machines) at a moment of its history. Files that are not in that history are left
alone, and so are secret and ignored files, whose contents are not sent. Owner,
attributes and mode are left alone too, except for the executable bit.`,
		Example: `  cachebro restore src --at 12:40
  cachebro restore 'src/**/*.go' --at 10m
  cachebro restore --at 10m --dry-run
  cachebro restore --at session-start --session last
  cachebro restore --at 812
  cachebro restore --machine build-7 --at 12:40 src`,
		Args: e.Args(0, -1),
	}

	fs := cmd.Flags()
	at := fs.String("at", "", "a time (12:40), an age (10m), a number of the log, a label or session-start")
	session := fs.String("session", "last", "the session for --at session-start: a session's id, or last")
	machine := machines.Flag(fs)
	f := addPlanFlags(fs, true)
	return doesPlan(cmd, func(ctx context.Context, args []string) error {
		var err error
		if *at == "" {
			return cli.UsageHint("cachebro restore PATH --at 10m; cachebro revert FILE goes back by one version", "restore: --at is missing; it names the moment to go back to")
		}
		start := cli.First(args, ".")
		if text.IsGlob(start) && !filepath.IsAbs(start) {
			start = "."
		}
		r := wire.PlanRequest{Kind: "restore"}
		switch {
		case strings.EqualFold(*at, "session-start"):
			r.Session = *session
		case fs.Changed("session"):
			return e.Usagef("restore: --session needs --at session-start")
		default:
			r.At, err = e.MomentFlag("at", *at, start)
			if err != nil {
				return err
			}
		}
		t, c, err := e.Open(ctx, start)
		if err != nil {
			return err
		}
		defer c.Close()
		for _, a := range args {
			p, err := requested(ctx, e, t, knownHere(c, *machine), a)
			if err != nil {
				return err
			}
			r.Paths = append(r.Paths, []byte(p))
		}
		if *machine != "" {
			return elsewhere(ctx, e, t, c, *machine, r, f)
		}
		return runPlan(ctx, e, t, c, r, f)
	})
}

// elsewhere carries out an undo or restore of another machine's history in the files of this
// machine.
func elsewhere(ctx context.Context, e *cli.Env, t cli.Target, c *wire.Client, machine string, r wire.PlanRequest, f planFlags) error {
	_, there, part, err := machines.Open(ctx, e, machine, t.Base())
	if err != nil {
		return err
	}
	defer there.Close()
	r.After, r.Before = part.Between()
	of, err := wire.Call[wire.Elsewhere](ctx, there, wire.MPlanThere, r)
	if err != nil {
		return err
	}
	of.Title += " on " + machine
	q := wire.PlanRequest{Kind: r.Kind, Elsewhere: &of, Merge: *f.merge, Force: *f.force}
	looked := e.WatchTree(ctx, c)
	body, err := SendWanted(ctx, c, q, func(hash string) ([]byte, error) {
		return there.Call(ctx, wire.MPastRead, wire.PastRead{Hash: hash}, nil, nil)
	})
	looked()
	if err != nil {
		return err
	}
	return runPlanWith(ctx, e, t, c, q, body, f)
}

// SendWanted asks the daemon which contents a plan with q.Elsewhere needs. It reads them, enters their
// sizes in q.Elsewhere, and returns them as the body of the plan's request.
func SendWanted(ctx context.Context, c *wire.Client, q wire.PlanRequest, read func(hash string) ([]byte, error)) ([]byte, error) {
	wanted, err := wire.Call[wire.Wanted](ctx, c, wire.MPlanWanted, q)
	if err != nil {
		return nil, err
	}
	body := make([]byte, 0, wanted.Size)
	for _, h := range wanted.Hashes {
		b, err := read(h)
		if err != nil {
			return nil, err
		}
		q.Elsewhere.Sent, body = append(q.Elsewhere.Sent, int64(len(b))), append(body, b...)
	}
	return body, nil
}
