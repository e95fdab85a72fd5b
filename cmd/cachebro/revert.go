package main

import (
	"context"
	"path"
	"path/filepath"
	"strings"

	"cachebro/fusefs/mounts"
	"cachebro/store/glob"
	"cachebro/store/wire"

	"github.com/spf13/pflag"
)

func revertCommand() command {
	return command{
		name: "revert", group: groupEvery, args: "PATH[@VERSION]", short: "take a file back to an earlier version",
		long: `Writes an earlier content of the file again, with its exact bytes and mode; a
deleted file comes back. The revert is a version itself: nothing is lost by it.

Examples:
  cachebro revert src/main.go            one step back
  cachebro revert src/main.go --to 3
  cachebro revert src/main.go@12:40 --dry-run`,
		run: planCommand(runRevert),
	}
}

func runRevert(ctx context.Context, e *env) error {
	fs := e.flags()
	steps := fs.Int("steps", 1, "how many versions back")
	to := fs.String("to", "", "version number, #SEQ, time or age")
	f := addPlanFlags(fs, false)
	args, err := e.parse(fs, 1, 1)
	if err != nil {
		return err
	}
	path, v, err := e.splitVersion(args[0])
	if err != nil {
		return err
	}
	if path == "" {
		return e.usagef("revert: name the file; --to '%s' says which version", args[0])
	}
	if *to != "" {
		if v, err = e.versionFlag("to", *to); err != nil {
			return err
		}
	}
	r := wire.PlanRequest{Kind: "revert", Version: v}
	if isNewest(v) {
		if *steps < 1 {
			return e.usagef("revert: --steps %d: want 1 or more", *steps)
		}
		r.Steps = *steps
	} else if fs.Changed("steps") {
		return e.usagef("revert: give --steps or a version, not both")
	}
	t, c, err := e.open(ctx, path)
	if err != nil {
		return err
	}
	defer c.Close()
	if len(t.rel) == 0 {
		return hintf("cachebro log "+arg(path), "revert takes back one file; %s is the whole project", quote(path))
	}
	r.Path = t.rel
	return e.takeBack(ctx, t, c, r, f)
}

func undoCommand() command {
	return command{
		name: "undo", group: groupEvery, args: "[PATH…]", short: "take back what a prompt, command, session or process did",
		long: `Takes back every change of one actor or time: contents, new and deleted files,
renames, modes. A file is touched only if it still is what that actor left;
the others are listed as conflicts, as are files that somebody has open for
writing (on a mount --force writes into them). Without a choice: the last action.
What the history does not have is taken into it first; where that cannot be (more
than 32 MiB), the file is left alone.

The exit status is 0 when all of it was taken back, 1 when something was left
and is named, 2 when nothing was done.

An undo that was killed is finished by the next mount, undo or redo; --rollback
takes back what it had done.

Examples:
  cachebro undo                     the last action (a command, a tool call)
  cachebro undo --prompt last       everything since the last prompt
  cachebro undo --session last --dry-run
  cachebro undo --since 10m 'src/**'
  cachebro undo --pid 811`,
		run: planCommand(runUndo),
	}
}

// unitFlags choose whose changes are meant.
type unitFlags struct {
	session, prompt, call, since, agent, dir *string
	pid                                      *uint32
	last                                     *bool
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
		dir:     fs.String("dir", ".", "the project"),
	}
}

func runUndo(ctx context.Context, e *env) error {
	fs := e.flags()
	u := addUnitFlags(fs)
	back := fs.Bool("rollback", false, "take back what an undo that was killed had done, instead of finishing it")
	f := addPlanFlags(fs, true)
	args, err := e.parse(fs, 0, -1)
	if err != nil {
		return err
	}
	r := wire.PlanRequest{Kind: "undo", Session: *u.session, Prompt: *u.prompt, ToolCall: *u.call, Agent: *u.agent, PID: *u.pid, Last: *u.last}
	if r.Since, err = e.timeFlag("since", *u.since); err != nil {
		return err
	}
	if r.Session == "" && r.Prompt == "" && r.ToolCall == "" && r.Agent == "" && r.PID == 0 && r.Since.IsZero() {
		r.Last = true
	}
	t, c, err := e.here(ctx, *u.dir)
	if err != nil {
		return err
	}
	defer c.Close()
	if *back {
		return e.rollback(ctx, t, c, f)
	}
	for _, a := range args {
		// Patterns are relative to the directory one stands in, as in git; the
		// daemon wants them relative to the root.
		switch {
		case !filepath.IsAbs(a) && len(t.rel) > 0 && glob.Wild(a) && !strings.Contains(strings.TrimSuffix(a, "/"), "/"):
			a = path.Join(string(t.rel), "**", a) // at any depth, as at the root
		case !filepath.IsAbs(a):
			a = path.Join(string(t.rel), a)
		case mounts.Within(a, t.base()):
			a = mounts.Rel(a, t.base())
		default:
			return e.usagef("undo: %s is outside the project %s", quote(a), quote(t.base()))
		}
		r.Paths = append(r.Paths, []byte(a))
	}
	return e.takeBack(ctx, t, c, r, f)
}

func redoCommand() command {
	return command{
		name: "redo", group: groupEvery, args: "", short: "bring back what undo, revert or restore took away",
		long: "Examples:\n  cachebro redo\n  cachebro redo --plan ID --dry-run",
		run: planCommand(func(ctx context.Context, e *env) error {
			fs := e.flags()
			plan := fs.String("plan", "", "the plan to bring back (log shows it in braces; default: the last)")
			dir := fs.String("dir", ".", "the project")
			f := addPlanFlags(fs, true)
			if _, err := e.parse(fs, 0, 0); err != nil {
				return err
			}
			t, c, err := e.here(ctx, *dir)
			if err != nil {
				return err
			}
			defer c.Close()
			return e.takeBack(ctx, t, c, wire.PlanRequest{Kind: "redo", Plan: *plan}, f)
		}),
	}
}

func restoreCommand() command {
	return command{
		name: "restore", group: groupEvery, args: "[PATH…] --at TIME", short: "bring files or the whole tree back to a moment",
		long: `Makes files what they were at a moment, whoever changed them since. Only files
that differ are written. Without a PATH: the whole tree.

Examples:
  cachebro restore src --at 12:40
  cachebro restore --at 10m --dry-run
  cachebro restore --at session-start --session last
  cachebro restore --at '#812'`,
		run: planCommand(runRestore),
	}
}

func runRestore(ctx context.Context, e *env) error {
	fs := e.flags()
	at := fs.String("at", "", "a time (12:40), an age (10m), #SEQ or session-start")
	session := fs.String("session", "last", "whose start session-start means: a session's id, or last")
	dir := fs.String("dir", ".", "the project")
	f := addPlanFlags(fs, true)
	args, err := e.parse(fs, 0, -1)
	if err != nil {
		return err
	}
	if *at == "" {
		return e.usagef("restore: --at is missing: to which moment?")
	}
	r := wire.PlanRequest{Kind: "restore"}
	if strings.EqualFold(*at, "session-start") {
		r.Session = *session
	} else if fs.Changed("session") {
		return e.usagef("restore: --session goes with --at session-start")
	} else if r.At, err = e.versionFlag("at", *at); err != nil {
		return err
	}
	if r.At.Number != 0 {
		return e.usagef("restore: --at %s is a version number; want a time, an age or #SEQ", *at)
	}
	where := *dir
	if len(args) > 0 && where == "." {
		where = args[0]
	}
	t, c, err := e.open(ctx, where)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, a := range args {
		other, err := e.locate(a)
		if err != nil {
			return err
		}
		if other.root != t.root {
			return e.usagef("restore: %s is in another project than %s", quote(a), quote(args[0]))
		}
		r.Paths = append(r.Paths, other.rel)
	}
	return e.takeBack(ctx, t, c, r, f)
}
