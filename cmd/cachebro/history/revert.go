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
	"cachebro/store/leaf/glob"
	"cachebro/store/leaf/limits"
	"cachebro/store/wire"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// RevertCommand returns the command cachebro revert.
func RevertCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "revert PATH[@VERSION]", Short: "take a file back to an earlier version",
		Long: `Writes an earlier content of the file again, with its exact bytes and mode; a
deleted file comes back. The revert is a version itself: nothing is lost by it.`,
		Example: `  cachebro revert src/main.go            one step back; again, one more
  cachebro revert src/main.go --to @3
  cachebro revert src/main.go@12:40 --dry-run`,
		Args: e.Args(1, 1),
	}

	fs := cmd.Flags()
	steps := fs.Int("steps", 1, "how many versions back")
	to := fs.String("to", "", "a number of the log, a version of the file (@3, -1), a time or an age")
	f := addPlanFlags(fs, false)
	cmd.RunE = planCommand(func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		path, v, err := e.SplitVersion(args[0])
		if err != nil {
			return err
		}
		if path == "" {
			return e.Usagef("revert: name the file; --to %s says which version", args[0])
		}
		if *to != "" {
			v, err = e.VersionFlag("to", *to)
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
			return cli.Hintf("cachebro log "+cli.Arg(path), "revert takes back one file; %s is the whole project", cli.Quote(path))
		}
		r.Path = t.Rel
		return takeBack(ctx, e, t, c, r, f)
	})
	return cmd
}

// UndoCommand returns the command cachebro undo.
func UndoCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "undo [NUMBER] [PATH…]", Short: "take back what a prompt, command, session or process did",
		Long: `Takes back every change of one actor or time: contents, new and deleted files,
renames, modes. A file is touched only if it still is what that actor left;
the others are listed as conflicts, as are files that somebody has open for
writing (on a mount --force writes into them). Without a choice: the newest line of
the log. A number is the action that log shows with it.
What the history does not have is taken into it first; where that cannot be (more
than ` + strconv.Itoa(limits.Content>>20) + ` MiB), the file is left alone.

The exit status is 0 when all of it was taken back, 1 when something was left
and is named, 2 when nothing was done.

Git's own files are left alone, unless --git is given: refs, HEAD, the index, the
stash, config, hooks and removed objects are then taken back as well, by the same
rule; files that belong together, such as HEAD, the index and the branch, go together.

--machine means what another machine did (see cachebro remote machines), chosen in the same way;
it is taken back in the files here, where they are what that machine left.

An undo that was killed is finished by the next mount, undo or redo; --rollback
takes back what it had done.`,
		Example: `  cachebro undo                     the newest line of the log
  cachebro undo 178                 the action of that number in the log
  cachebro undo 178 --hunk          single hunks of it, as git add -p asks
  cachebro undo --prompt last       everything since the last prompt
  cachebro undo --session last --dry-run
  cachebro undo --since 10m 'src/**'
  cachebro undo --git               the last git operation: refs, index, stash
  cachebro undo --git g178          the one of that number in the log
  cachebro undo --pid 811`,
		Args: e.Args(0, -1),
	}

	fs := cmd.Flags()
	u := addUnitFlags(fs)
	back := fs.Bool("rollback", false, "take back what an undo that was killed had done, instead of finishing it")
	git := fs.Bool("git", false, "also take back what was done to git's own files: refs, HEAD, index, stash, config, hooks, objects")
	machine := machines.Flag(fs)
	hunks := fs.Bool("hunk", false, "ask of each hunk of the action whether to take it back")
	f := addPlanFlags(fs, true)
	f.inside = fs.Bool("inside", false, "leave what was done outside of the project")
	cmd.RunE = planCommand(func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		var err error
		r := wire.PlanRequest{Kind: "undo", Session: *u.session, Prompt: *u.prompt, ToolCall: *u.call, Agent: *u.agent, PID: *u.pid, Last: *u.last, Asker: e.Session()}
		r.Since, err = e.TimeFlag("since", *u.since)
		if err != nil {
			return err
		}
		r.Last = r.Last || !selects(r)
		start := meantFrom(e, args)
		t, c, err := e.Open(ctx, start)
		if err != nil {
			return err
		}
		defer c.Close()
		if *back {
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
			// Patterns are relative to the directory one stands in, as in git; the
			// daemon wants them relative to the root.
			switch {
			case !filepath.IsAbs(a) && start != ".":
				return e.Usagef("undo: %s is in another project than %s; give one project's paths at a time", cli.Quote(a), cli.Quote(t.Base()))
			case !filepath.IsAbs(a) && len(t.Rel) > 0 && glob.Wild(a) && !strings.Contains(strings.TrimSuffix(a, "/"), "/"):
				a = path.Join(string(t.Rel), "**", a) // matches at any depth, as it would from the root
			case !filepath.IsAbs(a):
				a = path.Join(string(t.Rel), a)
			case mounts.Within(a, t.Base()):
				a = mounts.Rel(a, t.Base())
			default:
				return cli.UsageHint("cachebro undo --dir / "+cli.Arg(a), "undo: %s is outside the project %s", cli.Quote(a), cli.Quote(t.Base()))
			}
			r.Paths = append(r.Paths, []byte(a))
		}
		if *machine != "" {
			if *git || *hunks {
				return e.Usagef("undo: --machine does not go with --git or --hunk")
			}
			return takeElsewhere(ctx, e, t, c, *machine, r, f)
		}
		if *git {
			if *hunks || *f.merge || *f.force {
				return e.Usagef("undo: --git does not go with --hunk, --merge or --force")
			}
			return takeGitBack(ctx, e, t, c, r, f)
		}
		if *hunks {
			if selects(r) || *f.merge || *f.force {
				return e.Usagef("undo: --hunk goes with an action's number and paths only")
			}
			return takeHunks(ctx, e, t, c, r, f)
		}
		return takeBack(ctx, e, t, c, r, f)
	})
	return cmd
}

// meantFrom returns the directory whose project an undo is about: that of the first absolute
// path if it lies in another project than the working directory, else ".".
func meantFrom(e *cli.Env, args []string) string {
	here, none := e.Locate(".")
	for _, a := range args {
		if !filepath.IsAbs(a) || glob.Wild(a) {
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

// unitFlags choose whose changes to take back.
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

// takeElsewhere takes back, in the files here, what another machine did.
func takeElsewhere(ctx context.Context, e *cli.Env, t cli.Target, c *wire.Client, machine string, r wire.PlanRequest, f planFlags) error {
	_, there, part, err := machines.Open(ctx, e, machine, t.Base())
	if err != nil {
		return err
	}
	defer there.Close()
	r.After, r.Before = part.Between()
	var taken wire.Elsewhere
	body, err := there.Call(ctx, wire.MPlanTaken, r, nil, &taken)
	if err != nil {
		return err
	}
	taken.Title += " on " + machine
	return takeBackWith(ctx, e, t, c, wire.PlanRequest{Kind: r.Kind, Elsewhere: &taken}, body, f)
}

// selects reports whether a request says whose changes are meant, or of which time.
func selects(r wire.PlanRequest) bool {
	return r.Session+r.Prompt+r.ToolCall+r.Agent != "" || r.PID != 0 || !r.Since.IsZero()
}

// RedoCommand returns the command cachebro redo.
func RedoCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "redo", Short: "bring back what undo, revert or restore took away",
		Example: `  cachebro redo
  cachebro redo --plan ID --dry-run`,
		Args: e.Args(0, 0),
	}

	fs := cmd.Flags()
	plan := fs.String("plan", "", "the plan to bring back (log shows it in braces; default: the last)")
	f := addPlanFlags(fs, true)
	cmd.RunE = planCommand(func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		t, c, err := e.Open(ctx, ".")
		if err != nil {
			return err
		}
		defer c.Close()
		return takeBack(ctx, e, t, c, wire.PlanRequest{Kind: "redo", Plan: *plan}, f)
	})
	return cmd
}

// RestoreCommand returns the command cachebro restore.
func RestoreCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "restore [PATH…] --at TIME", Short: "bring files or the whole tree back to a moment",
		Long: `Makes files what they were at a moment, whoever changed them since. Only files
that differ are written. Without a PATH: the whole tree.

--machine means what another machine had (see cachebro remote machines), at a moment of its
history. Files of which it knows nothing stay as they are, as do those whose content was
not sent: secret and ignored ones. Owner, attributes and mode stay, except for the
executable bit.`,
		Example: `  cachebro restore src --at 12:40
  cachebro restore --at 10m --dry-run
  cachebro restore --at session-start --session last
  cachebro restore --at 812
  cachebro restore --machine build-7 --at 12:40 src`,
		Args: e.Args(0, -1),
	}

	fs := cmd.Flags()
	at := fs.String("at", "", "a time (12:40), an age (10m), a number of the log, a label or session-start")
	session := fs.String("session", "last", "whose start session-start means: a session's id, or last")
	machine := machines.Flag(fs)
	f := addPlanFlags(fs, true)
	cmd.RunE = planCommand(func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		var err error
		if *at == "" {
			return e.Usagef("restore: --at is missing: the moment to go back to")
		}
		r := wire.PlanRequest{Kind: "restore"}
		switch {
		case strings.EqualFold(*at, "session-start"):
			r.Session = *session
		case fs.Changed("session"):
			return e.Usagef("restore: --session goes with --at session-start")
		default:
			r.At, err = e.MomentFlag("at", *at)
			if err != nil {
				return err
			}
		}
		where := "."
		if len(args) > 0 && where == "." {
			where = args[0]
		}
		t, c, err := e.Open(ctx, where)
		if err != nil {
			return err
		}
		defer c.Close()
		for _, a := range args {
			other, err := e.Beside(t, a)
			if err != nil {
				return err
			}
			if other.Root != t.Root {
				return e.Usagef("restore: %s is in another project than %s", cli.Quote(a), cli.Quote(args[0]))
			}
			r.Paths = append(r.Paths, other.Rel)
		}
		if *machine != "" {
			return restoreElsewhere(ctx, e, t, c, *machine, r, f)
		}
		return takeBack(ctx, e, t, c, r, f)
	})
	return cmd
}

// restoreElsewhere makes the tree here what another machine's was. It fetches only the
// contents that are missing here.
func restoreElsewhere(ctx context.Context, e *cli.Env, t cli.Target, c *wire.Client, machine string, r wire.PlanRequest, f planFlags) error {
	_, there, part, err := machines.Open(ctx, e, machine, t.Base())
	if err != nil {
		return err
	}
	defer there.Close()
	r.After, r.Before = part.Between()
	then, err := wire.Call[wire.Then](ctx, there, wire.MPlanThen, r)
	if err != nil {
		return err
	}
	then.Title += " on " + machine
	q := wire.PlanRequest{Kind: r.Kind, Then: &then}
	looked := e.WatchTree(ctx, c)
	wanted, err := wire.Call[wire.Wanted](ctx, c, wire.MPlanWanted, q)
	looked()
	if err != nil {
		return err
	}
	body := make([]byte, 0, wanted.Size)
	for _, h := range wanted.Hashes {
		b, err := there.Call(ctx, wire.MPastRead, wire.PastRead{Hash: h}, nil, nil)
		if err != nil {
			return err
		}
		then.Sent, body = append(then.Sent, int64(len(b))), append(body, b...)
	}
	return takeBackWith(ctx, e, t, c, q, body, f)
}
